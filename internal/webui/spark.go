package webui

import (
	"fmt"
	"math"
	"strings"

	"mcpgateway/internal/inspect"
)

// The size of a sparkline, in the units of its view box.
const (
	sparkWidth  = 120.0
	sparkHeight = 24.0
)

// spark is a small chart of the last minutes: a line for how long calls took, and bars for errors.
type spark struct {
	Line   string // the path of the line, "" without calls
	Errors string // the path of the bars, "" without errors
	Label  string // the chart in words
}

// sparkOf draws points. The newest is at the right edge.
func sparkOf(points []inspect.Point) spark {
	if len(points) == 0 {
		return spark{Label: "no calls in the last minutes"}
	}
	highest, failed, calls, latest := 0.0, 0, 0, -1.0
	for _, p := range points {
		highest = max(highest, p.P95)
		failed += p.Failed
		calls += p.Calls
		if p.P95 >= 0 {
			latest = p.P95
		}
	}
	if calls == 0 {
		return spark{Label: "no calls in the last minutes"}
	}
	var line, bars strings.Builder
	step, drawing := sparkWidth/float64(inspect.HistoryLength-1), false
	for i, p := range points {
		x := sparkWidth - float64(len(points)-1-i)*step
		if p.P95 < 0 {
			drawing = false
		} else {
			y := sparkHeight - 2 - (sparkHeight-4)*scale(p.P95, highest)
			if drawing {
				fmt.Fprintf(&line, "L%.1f %.1f", x, y)
			} else { // a point alone is a short line
				fmt.Fprintf(&line, "M%.1f %.1fh1", x-1, y)
			}
			drawing = true
		}
		if p.Failed > 0 {
			height := 3 + (sparkHeight-3)*float64(p.Failed)/float64(max(p.Calls, 1))
			fmt.Fprintf(&bars, "M%.1f %.1fv-%.1f", x, sparkHeight, math.Min(height, sparkHeight))
		}
	}
	return spark{line.String(), bars.String(), fmt.Sprintf("slowest twentieth now %s, at most %s; %s failed", seconds(latest), seconds(highest), plural(failed, "call"))}
}

// scale returns how high a value is between 0 and 1. The root shows small values beside large ones.
func scale(v, highest float64) float64 {
	if highest <= 0 {
		return 0
	}
	return math.Sqrt(v / highest)
}
