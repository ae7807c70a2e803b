package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// openFiles is how many files this process and the gateway may need at a time:
// a connection for each of 10,000 idle streams, and others. -scale divides it.
const openFiles = 11_000

// options are the command line.
type options struct {
	load      load
	Workloads []workload
	Turns     int
	Rounds    int
	Gateway   string // binary; built from source if empty
	Compare   string // binary to compare with
	Nginx     bool
	JSON      string   // file for the report
	Render    string   // report that is written into the documentation
	Profiles  string   // folder for profiles
	Only      []string // paths; empty means all
	Strict    bool
	Scale     int  // divides the counts of workloads with many streams, sessions or items
	Role      role // set for a child
}

func parseOptions(args []string, output io.Writer) (options, error) {
	var o options
	var names, only, roleJSON string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(output)
	f.StringVar(&names, "workload", "all", "`names` of workloads, separated by commas")
	f.StringVar(&only, "only", "", "`paths` of the workloads that are measured, separated by commas; default: all")
	f.IntVar(&o.Turns, "turns", 5, "number of measurements of each path")
	f.IntVar(&o.Rounds, "rounds", 1, "number of rounds through all workloads, among which the turns are divided")
	f.DurationVar(&o.load.Duration, "duration", time.Second, "counted part of a measurement of calls")
	f.DurationVar(&o.load.Warmup, "warmup", 200*time.Millisecond, "part of a measurement before the counted part")
	f.StringVar(&o.Gateway, "gateway", "", "`file` with the gateway's binary; default: built from source")
	f.StringVar(&o.Compare, "compare", "", "`file` with another binary of the gateway, which is measured in the same turns")
	f.BoolVar(&o.Nginx, "nginx", true, "compare with nginx")
	f.StringVar(&o.JSON, "json", "", "`file` for the outcome as JSON")
	f.StringVar(&o.Render, "render", "", "write the outcome in this `file` into docs/performance.md, and measure nothing")
	f.StringVar(&o.Profiles, "profiles", "", "`folder` for the files of the workload profile, in the format of pprof")
	f.BoolVar(&o.Strict, "strict", false, "fail if a requirement is not met")
	f.IntVar(&o.Scale, "scale", 1, "divide the numbers of streams, sessions, tools and so on by this `number`, for a first look")
	f.StringVar(&roleJSON, "role", "", "serve in this `role` (the program starts itself with this flag)")
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	switch {
	case f.NArg() > 0:
		return options{}, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.Turns < 1 || o.Turns > 1000:
		return options{}, errors.New("-turns must be between 1 and 1000")
	case o.Rounds < 1 || o.Rounds > o.Turns:
		return options{}, errors.New("-rounds must be between 1 and -turns")
	case o.load.Duration <= 0 || o.load.Duration > time.Minute || o.load.Warmup < 0 || o.load.Warmup > time.Minute:
		return options{}, errors.New("-duration and -warmup must be at most a minute, -duration more than 0")
	case o.Scale < 1 || o.Scale > 1000:
		return options{}, errors.New("-scale must be between 1 and 1000")
	case roleJSON != "":
		if err := json.Unmarshal([]byte(roleJSON), &o.Role); err != nil {
			return options{}, fmt.Errorf("-role: %w", err)
		}
	}
	if only != "" {
		o.Only = strings.Split(only, ",")
	}
	var err error
	if o.Workloads, err = choose(workloads(o.Scale), names); err != nil {
		return options{}, err
	}
	return o, checkPaths(o.Workloads, o.Only)
}

// choose returns the workloads with these names, separated by commas, in the
// order of the table.
func choose(all []workload, names string) ([]workload, error) {
	if names == "all" {
		return all, nil
	}
	wanted := strings.Split(names, ",")
	chosen := slices.DeleteFunc(slices.Clone(all), func(w workload) bool { return !slices.Contains(wanted, w.Name) })
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(w workload) bool { return w.Name == name }) {
			known := make([]string, len(all))
			for i, w := range all {
				known[i] = w.Name
			}
			return nil, fmt.Errorf("-workload: %q is none of all, %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

// checkPaths returns an error if no workload has one of the paths.
func checkPaths(chosen []workload, paths []string) error {
	known := make(map[string]bool)
	for _, w := range chosen {
		for _, p := range w.Paths {
			known[p.Name] = true
		}
	}
	for _, p := range paths {
		if !known[p] {
			return fmt.Errorf("-only: %q is none of %s", p, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program. It returns 0 for success, 1 for a failure or, with -strict,
// a requirement that is not met, and 2 for wrong usage.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	case o.Role.Kind != "":
		err = serveRole(o.Role, stdin, stdout)
	case o.Render != "":
		err = render(o.Render, "docs")
	default:
		err = bench(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// bench measures, writes the report and checks the requirements.
func bench(ctx context.Context, o options, stdout, stderr io.Writer) error {
	r, err := runAll(ctx, o, stdout, stderr)
	if r != nil && o.JSON != "" {
		err = errors.Join(err, r.write(o.JSON))
	}
	if err != nil {
		return err
	}
	missed := r.missed()
	fmt.Fprintf(stdout, "\n%d requirements are not met\n", len(missed))
	for _, m := range missed {
		fmt.Fprintf(stdout, "  %s\n", m)
	}
	if o.Strict && len(missed) > 0 {
		return errors.New("requirements are not met")
	}
	return nil
}

// missed lists the requirements that are not met.
func (r *report) missed() (all []string) {
	for _, o := range r.Workloads {
		for _, x := range o.Ratios {
			if x.Requirement != 0 && !x.Met {
				all = append(all, fmt.Sprintf("%d. %s: %s is %.2f, want %s", x.Requirement, o.Name, x.Name, x.Median, x.Want))
			}
		}
	}
	return all
}
