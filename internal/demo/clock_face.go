package demo

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"time"
)

// faceSize is the width and height of a clock's face in pixels.
const faceSize = 128

// Indexes into the palette of a face.
const (
	faceBackground = iota
	faceHands
	faceSecondHand
)

var facePalette = color.Palette{
	faceBackground: color.White,
	faceHands:      color.Gray{Y: 0x20},
	faceSecondHand: color.RGBA{R: 0xd0, G: 0x30, B: 0x20, A: 0xff},
}

// drawFace gives a PNG of an analog clock that shows t: twelve marks, the hour
// and minute hands in dark, the second hand in red.
func drawFace(t time.Time) ([]byte, error) {
	img := image.NewPaletted(image.Rect(0, 0, faceSize, faceSize), facePalette)
	seconds := float64(t.Second())
	minutes := float64(t.Minute()) + seconds/60
	hours := float64(t.Hour()%12) + minutes/60
	for mark := range 12 {
		drawRay(img, float64(mark)/12, 0.86, 0.96, 2, faceHands)
	}
	drawRay(img, hours/12, 0, 0.5, 3, faceHands)
	drawRay(img, minutes/60, 0, 0.75, 2, faceHands)
	drawRay(img, seconds/60, 0, 0.82, 1, faceSecondHand)

	var buf bytes.Buffer
	err := png.Encode(&buf, img)
	return buf.Bytes(), err
}

// drawRay draws a line from the fraction inner of the radius to outer, at the
// fraction turn of a full turn clockwise from the top, width pixels wide.
func drawRay(img *image.Paletted, turn, inner, outer float64, width int, index uint8) {
	const center = faceSize / 2
	sin, cos := math.Sincos(2 * math.Pi * turn)
	for r := inner * center; r < outer*center; r += 0.5 {
		x, y := int(center+r*sin)-width/2, int(center-r*cos)-width/2
		for dx := range width {
			for dy := range width {
				img.SetColorIndex(x+dx, y+dy, index) // ignores what lies outside
			}
		}
	}
}
