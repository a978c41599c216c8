// Package drive is what every face does with a terminal before and after it asks a daemon: find it by a prefix of its id,
// make a payload out of text or keys, read what a wait is for, page through history, cut a screen to its content. The command
// trees and the MCP server call it; it dials nothing and knows no flags. Start reading at [SendSpec] and
// [ParseUntil].
package drive
