package imagescale

import (
	"bytes"
	"encoding/binary"
	"image"
)

// orientation returns how a JPEG has to be turned to be shown (Exif 2.32, tag 0x0112): 1 to 8,
// and 1 if it does not say.
func orientation(jpeg []byte) int {
	exif := exifOf(jpeg)
	if len(exif) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.BigEndian
	if exif[0] == 'I' {
		order = binary.LittleEndian
	}
	at := int(order.Uint32(exif[4:]))
	if at < 8 || at > len(exif)-2 {
		return 1
	}
	entries := exif[at+2:]
	for range order.Uint16(exif[at:]) {
		if len(entries) < 12 {
			return 1
		}
		if order.Uint16(entries) == 0x0112 {
			if o := int(order.Uint16(entries[8:])); o >= 1 && o <= 8 {
				return o
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}

// exifOf returns the Exif data of a JPEG, nil for none. They are in a segment APP1 before the
// image.
func exifOf(jpeg []byte) []byte {
	for rest := jpeg[min(2, len(jpeg)):]; len(rest) >= 4 && rest[0] == 0xff; {
		kind, size := rest[1], int(binary.BigEndian.Uint16(rest[2:]))+2
		if kind == 0xda || size > len(rest) { // the image begins
			return nil
		}
		if data, ok := bytes.CutPrefix(rest[4:size], []byte("Exif\x00\x00")); ok && kind == 0xe1 {
			return data
		}
		rest = rest[size:]
	}
	return nil
}

// turn returns an image turned and mirrored as an orientation says.
func turn(from *image.RGBA, orientation int) *image.RGBA {
	if orientation == 1 {
		return from
	}
	w, h := from.Rect.Dx(), from.Rect.Dy()
	size := image.Rect(0, 0, w, h)
	if orientation >= 5 {
		size = image.Rect(0, 0, h, w)
	}
	to := image.NewRGBA(size)
	for y := range h {
		for x := range w {
			tx, ty := x, y
			switch orientation {
			case 2:
				tx = w - 1 - x
			case 3:
				tx, ty = w-1-x, h-1-y
			case 4:
				ty = h - 1 - y
			case 5:
				tx, ty = y, x
			case 6:
				tx, ty = h-1-y, x
			case 7:
				tx, ty = h-1-y, w-1-x
			case 8:
				tx, ty = y, w-1-x
			}
			copy(to.Pix[to.PixOffset(tx, ty):][:4], from.Pix[from.PixOffset(x, y):][:4])
		}
	}
	return to
}
