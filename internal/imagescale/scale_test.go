package imagescale

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"runtime"
	"strings"
	"testing"
)

// quarters returns an image whose upper left quarter is red, and whose upper right one is blue.
func quarters(w, h int, alpha uint8) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.NRGBA{255, 255, 255, alpha}
			switch {
			case y < h/2 && x < w/2:
				c = color.NRGBA{255, 0, 0, alpha}
			case y < h/2:
				c = color.NRGBA{0, 0, 255, alpha}
			}
			m.SetNRGBA(x, y, c)
		}
	}
	return m
}

func encoded(t *testing.T, encode func(*bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func pngOf(t *testing.T, m image.Image) []byte {
	return encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, m) })
}

func jpegOf(t *testing.T, m image.Image) []byte {
	return encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, m, nil) })
}

// near reports whether two colors are about the same.
func near(a, b color.Color) bool {
	r, g, bl, al := a.RGBA()
	R, G, B, A := b.RGBA()
	d := func(x, y uint32) bool { return max(x, y)-min(x, y) < 0x1800 }
	return d(r, R) && d(g, G) && d(bl, B) && d(al, A)
}

func TestScale(t *testing.T) {
	red, blue := color.NRGBA{255, 0, 0, 255}, color.NRGBA{0, 0, 255, 255}
	animated := &gif.GIF{}
	for range 2 {
		frame := image.NewPaletted(image.Rect(0, 0, 300, 200), color.Palette{color.White, red, blue})
		for y := range 100 {
			for x := range 300 {
				frame.SetColorIndex(x, y, uint8(1+x/150))
			}
		}
		animated.Image, animated.Delay = append(animated.Image, frame), append(animated.Delay, 1)
	}
	for _, tt := range []struct {
		name string
		data []byte
		side int
		mime string // "" for unchanged
		size image.Point
	}{
		{"png", pngOf(t, quarters(3000, 1500, 255)), 1024, "image/png", image.Pt(1024, 512)},
		{"png, a little smaller", pngOf(t, quarters(300, 200, 255)), 200, "image/png", image.Pt(200, 133)},
		{"small png", pngOf(t, quarters(100, 50, 255)), 100, "", image.Point{}},
		{"narrow png", pngOf(t, quarters(2000, 2, 255)), 100, "image/png", image.Pt(100, 1)},
		{"transparent png", pngOf(t, quarters(300, 200, 128)), 100, "image/png", image.Pt(100, 66)},
		{"jpeg", jpegOf(t, quarters(1999, 1000, 255)), 512, "image/jpeg", image.Pt(512, 256)},
		{"gif", encoded(t, func(b *bytes.Buffer) error { return gif.EncodeAll(b, animated) }), 150, "image/png", image.Pt(150, 100)},
		{"webp", webpOf(300, 200, 255), 150, "image/jpeg", image.Pt(150, 100)},
		{"transparent webp", webpOf(300, 200, 128), 150, "image/png", image.Pt(150, 100)},
		{"broken webp", webpOf(300, 200, 255)[:28], 150, "", image.Point{}},
		{"text", []byte("no image"), 10, "", image.Point{}},
		{"nothing", nil, 10, "", image.Point{}},
		{"half a png", pngOf(t, quarters(300, 200, 255))[:100], 100, "", image.Point{}},
	} {
		got, mime, ok := Scale(tt.data, tt.side)
		if ok != (tt.mime != "") || mime != tt.mime {
			t.Errorf("%s: %v, %s", tt.name, ok, mime)
			continue
		}
		if !ok {
			continue
		}
		m, _, err := image.Decode(bytes.NewReader(got))
		if err != nil || m.Bounds().Size() != tt.size {
			t.Errorf("%s: %v, %v", tt.name, m.Bounds(), err)
			continue
		}
		if w := tt.size.X; tt.size.Y > 20 && !strings.HasPrefix(tt.name, "transparent") && (!near(m.At(w/8, 3), red) || tt.name != "webp" && !near(m.At(w-w/8, 3), blue)) {
			t.Errorf("%s: colors %v, %v", tt.name, m.At(w/8, 3), m.At(w-w/8, 3))
		}
		if _, _, _, a := m.At(3, 3).RGBA(); strings.HasPrefix(tt.name, "transparent") && a>>8 != 128 {
			t.Errorf("%s: alpha %d", tt.name, a>>8)
		}
	}
}

// webpOf returns a lossless WebP image in one color.
func webpOf(w, h int, alpha uint64) []byte {
	var bits []byte
	n := 0
	put := func(v uint64, count int) {
		for i := range count {
			if n%8 == 0 {
				bits = append(bits, 0)
			}
			bits[n/8] |= byte(v>>i&1) << (n % 8)
			n++
		}
	}
	put(0x2f, 8)
	put(uint64(w-1), 14)
	put(uint64(h-1), 14)
	put(1, 1) // has alpha
	put(0, 3+1+1+1)
	for _, symbol := range []uint64{0, 255, 0, alpha, 0} { // green, red, blue, alpha, distance
		put(1, 1) // a simple code
		put(0, 1) // of one symbol
		put(1, 1) // of eight bits
		put(symbol, 8)
	}
	if len(bits)%2 == 1 {
		bits = append(bits, 0)
	}
	chunk := append(binary.LittleEndian.AppendUint32([]byte("WEBPVP8L"), uint32(len(bits))), bits...)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(chunk))), chunk...)
}

// A JPEG is turned as its Exif data say, which do not survive the scaling.
func TestOrientation(t *testing.T) {
	red, blue := color.NRGBA{255, 0, 0, 255}, color.NRGBA{0, 0, 255, 255}
	corner := func(o int) (ofRed image.Point) { // 0 or 1 for each axis, after turning
		return []image.Point{1: {0, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 0}, {1, 0}, {1, 1}, {0, 1}}[o]
	}
	for _, order := range []binary.AppendByteOrder{binary.BigEndian, binary.LittleEndian} {
		for o := 1; o <= 8; o++ {
			data := jpegOf(t, quarters(400, 200, 255))
			exif := []byte("Exif\x00\x00MM\x00*")
			if order == binary.AppendByteOrder(binary.LittleEndian) {
				exif = []byte("Exif\x00\x00II*\x00")
			}
			exif = order.AppendUint32(exif, 8)
			exif = order.AppendUint16(exif, 1)
			exif = order.AppendUint16(order.AppendUint16(exif, 0x0112), 3)
			exif = order.AppendUint16(order.AppendUint32(exif, 1), uint16(o))
			exif = append(exif, 0, 0)
			segment := append(binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(exif)+2)), exif...)
			data = append(append(bytes.Clone(data[:2]), segment...), data[2:]...)
			got, _, ok := Scale(data, 100)
			m, _, err := image.Decode(bytes.NewReader(got))
			if !ok || err != nil {
				t.Fatal(o, err)
			}
			w, h := m.Bounds().Dx(), m.Bounds().Dy()
			if want := image.Pt(100, 50); o < 5 && m.Bounds().Size() != want || o >= 5 && m.Bounds().Size() != image.Pt(50, 100) {
				t.Errorf("orientation %d: %v", o, m.Bounds())
			}
			at := func(p image.Point) color.Color { return m.At(10+p.X*(w-20), 10+p.Y*(h-20)) }
			other := corner(o) // the blue corner is beside the red one, along the first row of the file
			if o < 5 {
				other.X = 1 - other.X
			} else {
				other.Y = 1 - other.Y
			}
			if !near(at(corner(o)), red) || !near(at(other), blue) {
				t.Errorf("orientation %d: red %v, blue %v", o, at(corner(o)), at(other))
			}
		}
	}
}

// A small file that claims to be huge costs nothing.
func TestImageBombs(t *testing.T) {
	bomb := pngOf(t, image.NewGray(image.Rect(0, 0, 4, 4)))
	for _, size := range [][2]uint32{{1 << 30, 1 << 30}, {1<<31 - 1, 1}, {1, 1<<31 - 1}, {4097, 4097}, {0, 5}} {
		binary.BigEndian.PutUint32(bomb[16:], size[0])
		binary.BigEndian.PutUint32(bomb[20:], size[1])
		binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, _, ok := Scale(bomb, 100); ok {
			t.Errorf("%v was scaled", size)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; size[0] == size[1] && n > 1<<20 {
			t.Errorf("%v took %d bytes", size, n)
		}
	}
}

func FuzzScale(f *testing.F) {
	f.Add(webpOf(12, 3, 255), 10)
	f.Add([]byte("GIF89a\x14\x00\x01\x00\x00\x00\x00,"), 10)
	f.Fuzz(func(t *testing.T, data []byte, side int) {
		side = 1 + side&0xff
		if c, _, err := image.DecodeConfig(bytes.NewReader(data)); err == nil && c.Width > 0 && c.Height > 1<<16/c.Width {
			return // slow, and no more interesting
		}
		got, _, ok := Scale(data, side)
		if !ok {
			return
		}
		c, _, err := image.DecodeConfig(bytes.NewReader(got))
		if err != nil || max(c.Width, c.Height) > side {
			t.Errorf("%v, %v", c, err)
		}
	})
}
