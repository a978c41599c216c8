package kavalrpc

var (
	AppendFrame = appendFrame
	ParseFrame  = parseFrame
)
