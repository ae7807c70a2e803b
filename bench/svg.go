package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// drawing builds an SVG document.
type drawing struct {
	strings.Builder
}

func newDrawing(width, height float64, title string) *drawing {
	d := &drawing{}
	d.element(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" font-family="sans-serif" font-size="12">`, width, height, width)
	d.element(`<title>%s</title><rect width="100%%" height="100%%" fill="#fff"/>`, html.EscapeString(title))
	return d
}

func (d *drawing) element(format string, args ...any) {
	fmt.Fprintf(d, format+"\n", args...)
}

func (d *drawing) line(x1, y1, x2, y2 float64, stroke string) {
	d.element(`<path d="M%.1f %.1fL%.1f %.1f" stroke="%s"/>`, x1, y1, x2, y2, stroke)
}

// text writes text; anchor is start, middle or end.
func (d *drawing) text(x, y float64, anchor, text string) {
	d.element(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, html.EscapeString(text))
}

func (d *drawing) String() string { return d.Builder.String() + "</svg>\n" }

// scale maps logarithms of values to a range of pixels.
type scale struct{ low, high, from, to float64 }

func (s scale) at(value float64) float64 {
	value = math.Min(math.Max(value, s.low), s.high)
	return s.from + (s.to-s.from)*math.Log(value/s.low)/math.Log(s.high/s.low)
}

const (
	blue, orange, green, red, grey = "#1f6fb4", "#d9822b", "#3a8f4d", "#c23b3b", "#d8d8d8"

	rowHeight = 18.0
)

// ratioPlot draws the ratios of rates of all workloads with their range.
func ratioPlot(r *report) string {
	type row struct {
		label string
		ratioOutcome
	}
	var rows []row
	for _, o := range r.Workloads {
		for _, x := range o.Ratios {
			if x.To != "" && x.Metric == perSecond {
				rows = append(rows, row{o.Name + ": " + x.Name, x})
			}
		}
	}
	const width, top = 900.0, 46.0
	height := top + float64(len(rows))*rowHeight + 10
	d := newDrawing(width, height, "Ratios of rates")
	x := scale{0.1, 20, 330, width - 60}
	d.text(10, 16, "start", "Ratio of rates: median of the turns, with their range. Blue: requirement met or none; red: not met; green: the requirement.")
	for _, tick := range []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 20} {
		stroke := grey
		if tick == 1 {
			stroke = "#555"
		}
		d.line(x.at(tick), top-4, x.at(tick), height-8, stroke)
		d.text(x.at(tick), top-10, "middle", fmt.Sprintf("%g", tick))
	}
	for i, row := range rows {
		y := top + (float64(i)+0.5)*rowHeight
		color := blue
		if row.Requirement != 0 && !row.Met {
			color = red
		}
		d.text(x.from-10, y+4, "end", row.label)
		d.line(x.at(row.Min), y, x.at(row.Max), y, color)
		d.element(`<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`, x.at(row.Median), y, color)
		var bound float64
		if _, err := fmt.Sscanf(row.Want, "≥ %g", &bound); err == nil {
			d.element(`<path d="M%.1f %.1fv10" stroke="%s" stroke-width="3"/>`, x.at(bound), y-5, green)
		}
		d.text(width-50, y+4, "start", fmt.Sprintf("%.2f", row.Median))
	}
	return d.String()
}

// latencyPlot draws p50 and p99 by the number of clients.
func latencyPlot(r *report) string {
	loads := []struct {
		workload string
		clients  float64
	}{{"clients-1", 1}, {"json-1k", 16}, {"clients-256", 256}}
	colors := map[string]string{viaReverse: orange, viaNginx: green, viaGateway: blue}
	const width, height, top = 720.0, 380.0, 40.0
	d := newDrawing(width, height, "Latency by load")
	x, y := scale{1, 256, 70, width - 130}, scale{10, 200_000, height - 40, top}
	d.text(10, 18, "start", "Duration of a call by the number of clients (1 KiB, legacy): p50 solid, p99 dashed")
	for _, l := range loads {
		d.line(x.at(l.clients), top, x.at(l.clients), y.from, grey)
		d.text(x.at(l.clients), y.from+18, "middle", fmt.Sprintf("%.0f", l.clients))
	}
	for _, tick := range []float64{10, 100, 1000, 10_000, 100_000} {
		d.line(x.from, y.at(tick), x.to, y.at(tick), grey)
		d.text(x.from-6, y.at(tick)+4, "end", durationLabel(tick))
	}
	for i, via := range []string{viaReverse, viaNginx, viaGateway} {
		for _, m := range []metric{p50, p99} {
			var points []string
			for _, l := range loads {
				if s, ok := r.figure(l.workload, via, m); ok {
					points = append(points, fmt.Sprintf("%.1f,%.1f", x.at(l.clients), y.at(s.Median)))
				}
			}
			dashes := ""
			if m == p99 {
				dashes = ` stroke-dasharray="6 4"`
			}
			d.element(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`, strings.Join(points, " "), colors[via], dashes)
		}
		at := top + 20 + float64(i)*rowHeight
		d.element(`<path d="M%.1f %.1fh24" stroke="%s" stroke-width="2"/>`, x.to+20, at-4, colors[via])
		d.text(x.to+50, at, "start", via)
	}
	return d.String()
}

func durationLabel(microseconds float64) string {
	if microseconds < 1000 {
		return fmt.Sprintf("%g µs", microseconds)
	}
	return fmt.Sprintf("%g ms", microseconds/1000)
}

// figure returns a figure of a path of a workload.
func (r *report) figure(workload, path string, m metric) (spread, bool) {
	for _, o := range r.Workloads {
		for _, p := range o.Paths {
			if s, ok := p.Figures[m]; ok && o.Name == workload && p.Name == path {
				return s, true
			}
		}
	}
	return spread{}, false
}

// flameGraph draws a flame graph with its root at the top.
func flameGraph(p profiled) string {
	const width, top = 1200.0, 26.0
	d := newDrawing(width, top+float64(p.Flame.depth())*rowHeight+4, "Flame graph: "+p.Name)
	d.text(4, 16, "start", fmt.Sprintf("Processor time of the gateway: %s. Blue: the gateway; orange: net; grey: runtime; red: system calls; yellow: other libraries.", p.About))
	d.frame(p.Flame, 0, top, width)
	return d.String()
}

func (f *frame) depth() int {
	deepest := 0
	for _, c := range f.Calls {
		deepest = max(deepest, c.depth())
	}
	return deepest + 1
}

// frame draws a function and, below it, what it calls.
func (d *drawing) frame(f *frame, x, y, width float64) {
	const letter = 6.6 // width of a letter at the font's size
	w := width * f.Percent / 100
	label := ""
	if letters := int(w / letter); letters >= 3 {
		if label = f.Name; len(label) > letters {
			label = label[:letters-2] + ".."
		}
	}
	d.element(`<g><title>%s %.1f %%</title><rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" fill="%s" stroke="#fff"/><text x="%.1f" y="%.1f">%s</text></g>`,
		html.EscapeString(f.Name), f.Percent, x, y, w, rowHeight-1, colors[f.Kind], x+3, y+13, html.EscapeString(label))
	for _, c := range f.Calls {
		d.frame(c, x, y+rowHeight, width)
		x += width * c.Percent / 100
	}
}

// colors are the colors of the kinds of functions.
var colors = map[string]string{kindGateway: "#9ec5e8", kindNet: "#f0c08c", kindRuntime: "#cfcfcf", kindSystem: "#e69a9a", "": "#efe3a0"}
