package main

import (
	"cmp"
	"math"
	"slices"
)

// quantile returns the nearest-rank quantile q in (0, 1] of a sorted slice, which
// must not be empty.
func quantile[T any](sorted []T, q float64) T {
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// median returns the median of values, which must not be empty. It returns the
// lower middle value of an even number, so that the median is a measured value.
func median[T cmp.Ordered](values []T) T {
	return quantile(slices.Sorted(slices.Values(values)), 0.5)
}

// spread is the distribution of a figure over the turns.
type spread struct {
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Values []float64 `json:"values"` // by turn
}

// spreadOf returns the spread of values, which must not be empty. Values are
// rounded to five digits, more than any measurement has.
func spreadOf(values []float64) spread {
	rounded := make([]float64, len(values))
	for i, v := range values {
		rounded[i] = round(v)
	}
	return spread{Median: median(rounded), Min: slices.Min(rounded), Max: slices.Max(rounded), Values: rounded}
}

// round returns x with five significant digits.
func round(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0 // JSON has no other number
	}
	scale := math.Pow(10, 4-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}
