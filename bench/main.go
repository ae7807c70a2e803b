package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The measured paths, in their order in each round.
const (
	pathDirect  = "direct"
	pathReverse = "reverse"
	pathTyped   = "typed"
	pathGateway = "gateway"
)

var allPaths = []string{pathDirect, pathReverse, pathTyped, pathGateway}

// options are the command line.
type options struct {
	load
	Only            []string // paths
	Rounds          int
	GatewayBinary   string // built from source if empty
	GatewayLogLevel string // default of the gateway if empty
	RequireReverse  float64
	RequireTyped    float64

	Role, Target string // set for a child
}

func parseOptions(args []string, output io.Writer) (options, error) {
	var o options
	var only string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(output)
	f.StringVar(&o.Era, "era", eraLegacy, "`era` of the clients and the upstream: legacy or modern")
	f.StringVar(&only, "only", strings.Join(allPaths, ","), "`paths` to measure, separated by commas")
	f.IntVar(&o.Clients, "clients", 16, "concurrent clients, each with its own connection")
	f.IntVar(&o.Rounds, "rounds", 5, "number of measurements of each path")
	f.DurationVar(&o.Duration, "duration", 2*time.Second, "counted part of a round on one path")
	f.DurationVar(&o.Warmup, "warmup", 300*time.Millisecond, "part of a round before the counted part")
	f.StringVar(&o.GatewayBinary, "gateway", "", "`file` with the gateway's binary; default: built from source")
	f.StringVar(&o.GatewayLogLevel, "gateway-log-level", "", "`level` of the gateway's log; default: the gateway's own")
	f.Float64Var(&o.RequireReverse, "require-reverse", 0, "fail if the gateway is slower than this `multiple` of reverse")
	f.Float64Var(&o.RequireTyped, "require-typed", 0, "fail if the gateway is slower than this `multiple` of typed")
	f.StringVar(&o.Role, "role", "", "serve in this `role` (the program starts itself with this flag)")
	f.StringVar(&o.Target, "target", "", "`URL` of the upstream for a role")
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	o.Only = strings.Split(only, ",")
	switch unknown := slices.IndexFunc(o.Only, func(p string) bool { return !slices.Contains(allPaths, p) }); {
	case f.NArg() > 0:
		return options{}, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.Era != eraLegacy && o.Era != eraModern:
		return options{}, fmt.Errorf("-era %s is neither %s nor %s", o.Era, eraLegacy, eraModern)
	case unknown >= 0:
		return options{}, fmt.Errorf("-only: %q is none of %s", o.Only[unknown], strings.Join(allPaths, ", "))
	case o.Clients < 1 || o.Clients > 1000 || o.Rounds < 1 || o.Rounds > 1000:
		return options{}, errors.New("-clients and -rounds must be between 1 and 1000")
	case o.Duration <= 0 || o.Duration > time.Minute || o.Warmup < 0 || o.Warmup > time.Minute:
		return options{}, errors.New("-duration and -warmup must be at most a minute, -duration more than 0")
	}
	return o, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program. It returns 0 for success, 1 for a failure or a requirement
// that is not met, and 2 for wrong usage.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	case o.Role != "":
		err = serveRole(o.Role, o.Era, o.Target, stdin, stdout)
	default:
		err = compare(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// compare starts the processes, measures the paths round by round, prints the
// report to stdout and progress to stderr, and checks the requirements.
func compare(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "mcpgateway-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	paths, stop, err := startPaths(ctx, o, dir)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "tools/call, %s era, %d-byte text, %d clients, %d rounds of %s, %d CPUs, %s\n",
		o.Era, answerLength, o.Clients, o.Rounds, o.Duration, runtime.NumCPU(), runtime.Version())
	var all results
	for round := range o.Rounds {
		for _, p := range paths {
			s, err := o.load.run(ctx, p)
			if err != nil {
				return err
			}
			fmt.Fprintf(stderr, "round %d of %d: %-8s %7.0f calls/s\n", round+1, o.Rounds, p.Name, s.PerSecond)
			all.add(p.Name, s)
		}
	}
	if err := all.print(stdout); err != nil {
		return err
	}
	return all.require(o.RequireReverse, o.RequireTyped)
}

// startPaths starts the upstream and the proxies of the chosen paths. stop ends
// all started processes; it must be called also after an error.
func startPaths(ctx context.Context, o options, dir string) (paths []path, stop func() error, err error) {
	var running []io.Closer
	stop = func() error {
		var errs []error
		for _, c := range slices.Backward(running) {
			errs = append(errs, c.Close())
		}
		return errors.Join(errs...)
	}
	upstream, err := startRole(ctx, roleUpstream, o.Era, "")
	if err != nil {
		return nil, stop, err
	}
	running = append(running, upstream)

	for _, name := range allPaths {
		if !slices.Contains(o.Only, name) {
			continue
		}
		p := path{Name: name, URL: upstream.URL, Tool: toolName, PID: upstream.cmd.Process.Pid}
		switch name {
		case pathReverse, pathTyped:
			proxy, err := startRole(ctx, name, o.Era, upstream.URL)
			if err != nil {
				return nil, stop, err
			}
			running = append(running, proxy)
			p.URL, p.PID = proxy.URL, proxy.cmd.Process.Pid
		case pathGateway:
			binary := o.GatewayBinary
			if binary == "" {
				if binary, err = buildGateway(ctx, dir); err != nil {
					return nil, stop, err
				}
			}
			gateway, err := startGateway(ctx, binary, dir, o.Era, upstream.URL, o.GatewayLogLevel)
			if err != nil {
				return nil, stop, err
			}
			running = append(running, gateway)
			p.URL, p.Tool, p.PID = gateway.URL, gatewayTool, gateway.cmd.Process.Pid
		}
		paths = append(paths, p)
	}
	return paths, stop, nil
}
