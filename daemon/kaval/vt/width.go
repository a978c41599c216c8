package vt

//go:generate go run widthgen.go

// Props are what printing must know of a character: its width in the low two bits, and what it may join.
type props uint8

const (
	widthMask        props = 3
	propModifier     props = 1 << 2 // a skin tone
	propRegional     props = 1 << 3 // half of a flag
	propPictographic props = 1 << 4 // an emoji, or a sign that U+FE0F makes one
	propVariation    props = 1 << 5 // grows wide by U+FE0F
)

func propsOf(r rune) props {
	if uint32(r) > 0x10ffff {
		return 1
	}
	return props(propBlocks[int(propIndex[r>>8])<<8|int(r&0xff)])
}
