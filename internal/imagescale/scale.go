package imagescale

import (
	"bytes"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"sync"

	"golang.org/x/image/draw"
	"golang.org/x/image/webp"
)

// MaxPixels bounds the images that are decoded.
const MaxPixels = 16 << 20

// quality is that of JPEG images.
const quality = 85

// decoding is held while an image is decoded: a progressive JPEG takes twelve bytes for each pixel.
var decoding sync.Mutex

// format is a format that is read.
type format struct {
	begin  string
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
	photos bool // the format loses detail, so that JPEG may be written for it
}

var formats = []format{
	{"\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode, false},
	{"\xff\xd8\xff", jpeg.DecodeConfig, jpeg.Decode, true},
	{"GIF8", gif.DecodeConfig, gif.Decode, false},
	{"RIFF", webp.DecodeConfig, webp.Decode, true},
}

// Scale returns an image whose longest side has at most side pixels, and its MIME type. It
// reports false for an image that is small enough, or that it cannot scale. A JPEG stays one and
// is turned as its Exif data say. A WebP image without transparency becomes a JPEG. Others become
// PNG: a GIF its first frame. Metadata are lost.
func Scale(data []byte, side int) (scaled []byte, mime string, ok bool) {
	f := formatOf(data)
	if f == nil {
		return nil, "", false
	}
	c, err := f.config(bytes.NewReader(data))
	if err != nil || c.Width <= 0 || c.Height <= 0 || max(c.Width, c.Height) <= side || c.Width > MaxPixels/c.Height {
		return nil, "", false
	}
	decoding.Lock()
	defer decoding.Unlock()
	from, err := f.decode(bytes.NewReader(data))
	if err != nil {
		return nil, "", false
	}
	size := from.Bounds().Size()
	if size.X != c.Width || size.Y != c.Height { // a frame of a GIF may be smaller
		if max(size.X, size.Y) <= side || size.X <= 0 || size.Y <= 0 {
			return nil, "", false
		}
	}
	if n := max(size.X, size.Y) / side; n > 1 {
		from = reduce(from, n)
	}
	to := image.NewRGBA(fit(size, side))
	draw.ApproxBiLinear.Scale(to, to.Rect, from, from.Bounds(), draw.Src, nil) // to more than half of the size

	var out bytes.Buffer
	if f.photos && to.Opaque() {
		if err := jpeg.Encode(&out, turn(to, orientation(data)), &jpeg.Options{Quality: quality}); err != nil {
			return nil, "", false
		}
		return out.Bytes(), "image/jpeg", true
	}
	if err := png.Encode(&out, to); err != nil {
		return nil, "", false
	}
	return out.Bytes(), "image/png", true
}

// formatOf returns the format of an image by its first bytes, nil for another one.
func formatOf(data []byte) *format {
	for i := range formats {
		if f := &formats[i]; bytes.HasPrefix(data, []byte(f.begin)) {
			return f
		}
	}
	return nil
}

// fit returns the size of an image whose longest side is scaled to side.
func fit(size image.Point, side int) image.Rectangle {
	longest := max(size.X, size.Y)
	return image.Rect(0, 0, max(1, size.X*side/longest), max(1, size.Y*side/longest))
}

// reduce returns an image with the averages of n by n pixels. The last pixels of a row or column
// are averages of what is left. It needs memory for n rows beside the result.
func reduce(from image.Image, n int) *image.RGBA {
	b := from.Bounds()
	to := image.NewRGBA(image.Rect(0, 0, (b.Dx()+n-1)/n, (b.Dy()+n-1)/n))
	rows := image.NewRGBA(image.Rect(0, 0, b.Dx(), n))
	for y := range to.Rect.Dy() {
		have := min(n, b.Dy()-y*n)
		draw.Draw(rows, image.Rect(0, 0, b.Dx(), have), from, b.Min.Add(image.Pt(0, y*n)), draw.Src)
		for x := range to.Rect.Dx() {
			wide := min(n, b.Dx()-x*n)
			var sum [4]int
			for row := range have {
				pix := rows.Pix[row*rows.Stride+4*x*n:][:4*wide]
				for i, v := range pix {
					sum[i&3] += int(v)
				}
			}
			pix := to.Pix[y*to.Stride+4*x:][:4]
			for i := range pix {
				pix[i] = uint8((sum[i] + wide*have/2) / (wide * have))
			}
		}
	}
	return to
}
