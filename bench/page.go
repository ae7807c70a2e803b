package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// The markers in docs/performance.md between which the program writes.
const (
	beginMark = "<!-- Written by go run ./bench -render: do not edit below. -->"
	endMark   = "<!-- Written by go run ./bench -render: do not edit above. -->"

	pageName   = "performance.md"
	pageFolder = "performance" // figures and plots
	dataName   = "bench.json"
)

// render stores the report in file, and its plots, in the folder of the
// documentation, and writes its figures into the page.
func render(file, docs string) error {
	r, err := readReport(file)
	if err != nil {
		return err
	}
	files, err := r.files(docs)
	if err != nil {
		return err
	}
	folder := filepath.Join(docs, pageFolder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(folder, "*.svg"))
	for _, name := range old {
		err = errors.Join(err, os.Remove(name))
	}
	err = errors.Join(err, r.write(filepath.Join(folder, dataName)))
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(docs, name), content, 0o644))
	}
	return err
}

// files returns the content of the page and the plots by their names below docs.
func (r *report) files(docs string) (map[string][]byte, error) {
	page, err := os.ReadFile(filepath.Join(docs, pageName))
	if err != nil {
		return nil, err
	}
	before, rest, ok := bytes.Cut(page, []byte(beginMark))
	_, after, closed := bytes.Cut(rest, []byte(endMark))
	if !ok || !closed {
		return nil, fmt.Errorf("%s has no lines %q and %q", pageName, beginMark, endMark)
	}
	var b bytes.Buffer
	b.Write(before)
	b.WriteString(beginMark + "\n\n")
	if err := figures.Execute(&b, r); err != nil {
		return nil, err
	}
	b.WriteString(endMark)
	b.Write(after)
	files := map[string][]byte{
		pageName:                    b.Bytes(),
		pageFolder + "/ratios.svg":  []byte(ratioPlot(r)),
		pageFolder + "/latency.svg": []byte(latencyPlot(r)),
	}
	for _, p := range r.Profiles {
		files[pageFolder+"/flame-"+p.Name+".svg"] = []byte(flameGraph(p))
	}
	return files, nil
}

// requirement is a ratio that a requirement is about.
type requirement struct {
	Workload string
	ratioOutcome
}

// requirements returns the ratios with requirements by their lines.
func (r *report) requirements() (all []requirement) {
	for _, o := range r.Workloads {
		for _, x := range o.Ratios {
			if x.Requirement != 0 {
				all = append(all, requirement{o.Name, x})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b requirement) int { return a.Requirement - b.Requirement })
	return all
}

// table returns the figures of the paths of a workload in Markdown.
func (o *outcome) table() string {
	shown := o.shown()
	var b strings.Builder
	b.WriteString("| path |")
	for _, m := range shown {
		fmt.Fprintf(&b, " %s |", m.column())
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(shown)) + "\n")
	for _, p := range o.Paths {
		fmt.Fprintf(&b, "| %s |", p.Name)
		for _, m := range shown {
			if s, ok := p.Figures[m]; ok {
				fmt.Fprintf(&b, " %s |", number(s.Median))
			} else {
				b.WriteString("  |")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// figures is the generated part of the page.
var figures = template.Must(template.New("figures").Funcs(template.FuncMap{
	"requirements": (*report).requirements,
	"table":        (*outcome).table,
	"number":       number,
	"versions": func(v map[string]string) string {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = append(all, name+" "+strings.TrimPrefix(v[name], name))
		}
		return strings.Join(all, ", ")
	},
	"verdict": func(x requirement) string {
		if x.Met {
			return "met"
		}
		return "**not met**"
	},
	"date": func(r *report) string { return r.Time.Format("2 January 2006, 15:04 MST") },
}).Parse(`Measured on {{date .}} at commit {{.Commit}}: {{.Machine}}, {{.CPUs}} CPUs; {{versions .Versions}}. Each
figure is the median of {{.Turns}} turns; a measurement of calls lasts {{.Duration}}. All figures of all turns are in
[` + "`bench.json`" + `](performance/bench.json).

### Requirements

| line | workload | ratio | wanted | median | range | |
|---:|---|---|---:|---:|---:|---|
{{range requirements .}}| {{.Requirement}} | {{.Workload}} | {{.Name}} | {{.Want}} | {{printf "%.2f" .Median}} | {{printf "%.2f to %.2f" .Min .Max}} | {{verdict .}} |
{{end}}
![Ratios of rates of all workloads with their range](performance/ratios.svg)

![Duration of a call by the number of clients](performance/latency.svg)

### Workloads
{{range .Workloads}}
#### {{.Name}}

{{.About}}
{{if .Failed}}
This workload failed.
{{end}}
{{table .}}{{if .Ratios}}
| ratio | median | range |
|---|---:|---:|
{{range .Ratios}}| {{.Name}} | {{printf "%.2f" .Median}} | {{printf "%.2f to %.2f" .Min .Max}} |
{{end}}{{end}}{{end}}
{{- range .Profiles}}
### Profile: {{.Name}}

The gateway with {{.About}}. The width of a function is its share of the processor time; functions with less than half a percent are
left out.

![Flame graph of {{.Name}}](performance/flame-{{.Name}}.svg)

These functions allocate most bytes. The second column is the function of the gateway that called them, if they are not its own.

| function | for | objects per call | bytes per call |
|---|---|---:|---:|
{{range .Sites}}| ` + "`{{.Function}}`" + ` | {{if .For}}` + "`{{.For}}`" + `{{end}} | {{printf "%.2f" .Objects}} | {{printf "%.0f" .Bytes}} |
{{end}}{{end}}
`))
