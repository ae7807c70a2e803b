package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// beforeSuffix marks the paths of the binary given by -compare.
const beforeSuffix = " before"

// runAll measures the chosen workloads in rounds, each of which has a part of the turns: the state
// of a machine, such as its clock and the load of its host, changes over minutes, and the ratio of
// two paths with it. It prints each workload as its last round ends. A failure of one does not
// keep the others from running; it is part of the error.
func runAll(ctx context.Context, o options, stdout, stderr io.Writer) (r *report, err error) {
	if err := raiseFileLimit(uint64(openFiles/o.Scale + 1000)); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mcpgateway-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	certs, err := newCertificates(dir)
	if err != nil {
		return nil, err
	}
	nginx := ""
	if o.Nginx {
		if nginx, err = findNginx(); err != nil {
			return nil, err
		}
	}
	binary := o.Gateway
	if binary == "" {
		if binary, err = buildGateway(ctx, dir); err != nil {
			return nil, err
		}
	}
	r = newReport(o, nginx)
	fmt.Fprintf(stdout, "%s, %d CPUs, %s, commit %s; medians of %d turns\n", r.Machine, r.CPUs, r.Versions["go"], r.Commit, o.Turns)
	var failures []error
	outcomes := make([]*outcome, len(o.Workloads))
	for i, w := range o.Workloads {
		outcomes[i] = &outcome{Name: w.Name, About: w.About, samples: make(map[string][]sample)}
	}
	for round := range o.Rounds {
		isLast := round == o.Rounds-1
		for i, w := range o.Workloads {
			out := outcomes[i]
			if w.Name == profileWorkload && !isLast || out.Failed != "" || ctx.Err() != nil {
				continue
			}
			s := o.stage(filepath.Join(dir, w.Name, strconv.Itoa(round)), nginx, binary, certs)
			var err error
			if w.Name == profileWorkload {
				fmt.Fprintf(stderr, "%s\n", w.Name)
				r.Profiles, err = s.profile(ctx)
			} else {
				w = s.adapt(w)
				err = s.measure(ctx, w, out, round, stderr)
			}
			if err := errors.Join(err, s.Close()); err != nil {
				s.printLogs(stderr)
				out.Failed = err.Error()
				failures = append(failures, fmt.Errorf("%s: %w", w.Name, err))
			}
			if w.Name == profileWorkload || !isLast && out.Failed == "" {
				continue
			}
			out.summarize(w)
			r.Workloads = append(r.Workloads, out)
			if err := out.print(stdout); err != nil {
				return nil, err
			}
		}
	}
	return r, errors.Join(failures...)
}

// stage returns the stage of a workload.
func (o options) stage(dir, nginx, binary string, certs *certificates) *stage {
	return &stage{&shared{options: o, nginx: nginx, certs: certs, dir: dir, roles: make(map[role]*child)}, binary}
}

// adapt leaves out paths that are not wanted and, if there is no nginx, those via
// nginx. It adds the paths of the binary to compare with.
func (s *stage) adapt(w workload) workload {
	var paths []path
	for _, p := range w.Paths {
		if p.Via == viaNginx && s.nginx == "" || len(s.Only) > 0 && !slices.Contains(s.Only, p.Name) {
			continue
		}
		paths = append(paths, p)
		if p.Via != viaGateway || s.Compare == "" {
			continue
		}
		start := p.Start
		paths = append(paths, path{Name: p.Name + beforeSuffix, Start: func(ctx context.Context, s *stage) (measure, error) {
			return start(ctx, &stage{s.shared, s.Compare})
		}})
		w.Ratios = slices.Concat(w.Ratios, p.compared())
	}
	w.Paths = paths
	return w
}

// compared returns the ratios of a path to the same path of the other binary.
func (p path) compared() (ratios []ratio) {
	metrics := p.Metrics
	if metrics == nil {
		metrics = []metric{perSecond, cpu, p99}
	}
	for _, m := range metrics {
		ratios = append(ratios, ratio{Metric: m, Of: p.Name, To: p.Name + beforeSuffix})
	}
	return ratios
}

// measure starts the paths of a workload and measures them in the turns of a round: one after the
// other, or together. Each turn begins with another path, so that no path is always first.
func (s *stage) measure(ctx context.Context, w workload, out *outcome, round int, stderr io.Writer) error {
	measures := make([]measure, len(w.Paths))
	for i, p := range w.Paths {
		var err error
		if measures[i], err = p.Start(ctx, s); err != nil {
			return fmt.Errorf("path %s: %w", p.Name, err)
		}
	}
	for turn := s.Turns * round / s.Rounds; turn < s.Turns*(round+1)/s.Rounds; turn++ {
		figures := make([]sample, len(measures))
		atOnce := 1
		if w.Together {
			atOnce = len(measures)
		}
		err := inParallel(len(measures), atOnce, func(i int) (err error) {
			i = (i + turn) % len(measures)
			if figures[i], err = measures[i](ctx); err != nil {
				return fmt.Errorf("path %s: %w", w.Paths[i].Name, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, p := range w.Paths {
			fmt.Fprintf(stderr, "%s, turn %d of %d: %s%s\n", w.Name, turn+1, s.Turns, p.Name, figures[i])
			out.samples[p.Name] = append(out.samples[p.Name], figures[i])
		}
	}
	return nil
}

// printLogs writes the ends of the logs of all processes, after a failure.
func (s *stage) printLogs(w io.Writer) {
	logs, _ := filepath.Glob(filepath.Join(s.dir, "*.log"))
	for _, log := range logs {
		data, err := os.ReadFile(log)
		if err != nil || len(data) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s ends:\n%s\n", filepath.Base(log), data[max(0, len(data)-2048):])
	}
}
