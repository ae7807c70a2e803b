package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/ruleset"
	"mcpgateway/internal/telemetry"
)

// runOptions are the flags of `gateway run` and `gateway stdio`.
type runOptions struct {
	file, listen, adminListen string
	profile                   string // "" if --profile is not given
	logLevel                  string // "" for the configured one
	takesURL                  bool   // whether the verb has --url
}

func (o *runOptions) flags(cmd *cobra.Command) {
	o.configFlag(cmd)
	cmd.Flags().StringVar(&o.listen, "listen", "", "`ADDRESS` to serve MCP on, in place of the configured one")
	cmd.Flags().StringVar(&o.adminListen, "admin-listen", "", "`ADDRESS` of health and metrics, in place of the configured one")
	o.logFlag(cmd)
}

// logLevels are the values of --log-level.
var logLevels = []string{string(config.LogDebug), string(config.LogInfo), string(config.LogWarn), string(config.LogError)}

func (o *runOptions) logFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.logLevel, "log-level", "", "log from `LEVEL` on: "+strings.Join(logLevels, ", "))
	complete(cmd, "log-level", func() []string { return logLevels })
}

// levelOf returns the lowest level that is logged.
func (o *runOptions) levelOf(configured config.LogLevel, stdio bool) (string, error) {
	switch level := cmp.Or(o.logLevel, string(configured)); {
	case o.logLevel != "" && !slices.Contains(logLevels, o.logLevel):
		return "", usageError{fmt.Errorf("--log-level %s: must be one of %s", o.logLevel, strings.Join(logLevels, ", "))}
	case level != string(config.LevelAuto):
		return level, nil
	case stdio: // hosts show the log to their users
		return string(config.LogWarn), nil
	default:
		return string(config.LogInfo), nil
	}
}

func (o *runOptions) configFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.file, "config", "c", "", "configuration `FILE` (gateway.yaml, or a host's mcp.json)")
	_ = cmd.MarkFlagFilename("config", configExtensions...) // fails only for an unknown flag
}

// editFlag is configFlag for a verb that edits the file.
func (o *runOptions) editFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.file, "config", "c", "", "the gateway.yaml to edit, a `FILE` in YAML")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // fails only for an unknown flag
}

// run serves until the first SIGINT or SIGTERM, then drains. A second signal ends the process
// immediately.
func (o *runOptions) run(cmd *cobra.Command) error {
	return o.serve(cmd, false, func(ctx context.Context, g *gateway.Gateway, source string, progress *starting) error {
		if progress != nil {
			greet(progress.screen, g, source, o.moved(ctx, g, source))
			progress.begin(g.Upstreams())
			defer progress.screen.Status("")
		}
		return g.Run(ctx)
	})
}

// runStdio serves the parent process on standard input and output until the input ends. Only messages go to
// standard output.
func (o *runOptions) runStdio(cmd *cobra.Command) error {
	// A write to a host that is gone fails, and must not end the process.
	signal.Ignore(syscall.SIGPIPE)
	return o.serve(cmd, true, func(ctx context.Context, g *gateway.Gateway, _ string, _ *starting) error {
		if console.IsTerminal(cmd.InOrStdin()) {
			folded(cmd.ErrOrStderr(), "note: stdio is for hosts, which start it and send messages of MCP to its standard input; \"gateway connect HOST\" makes a host do so. Ctrl-D ends it.\n")
		}
		return g.RunStdio(ctx, cmd.InOrStdin(), cmd.OutOrStdout())
	})
}

// serve runs a gateway with the configuration until the first signal, for one client on a pipe, or with a
// progress that shows the start of the upstreams. If the log is JSON, nothing else is written to standard output
// and standard error, and progress is nil; only a terminal that does not get the log shows the progress.
func (o *runOptions) serve(cmd *cobra.Command, stdio bool,
	run func(ctx context.Context, g *gateway.Gateway, source string, progress *starting) error,
) error {
	cfg, source, err := o.load()
	if err == nil {
		if err = o.knownProfile(cfg); err != nil && source.File == "" {
			o.sayDemo(cmd.ErrOrStderr(), cfg)
		}
	}
	if err != nil {
		return err
	}
	if o.file != "" { // the log and the answers are read elsewhere
		advice.SetConfigFlag(withConfig(absolute(o.file)))
	}
	// Audit records for programs must not be mixed with text for people.
	out := cmd.OutOrStdout()
	if cfg.Telemetry.Audit.File == config.AuditStdout {
		out = cmd.ErrOrStderr()
	}
	level, err := o.levelOf(cfg.Telemetry.Log.Level, stdio)
	if err != nil {
		return err
	}
	stderr, _ := cmd.ErrOrStderr().(*os.File)
	logging := telemetry.LogOptions{
		Level: level, Current: new(zap.AtomicLevel), Format: string(cfg.Telemetry.Log.Format), Out: stderr,
		Colour: console.StyleOf(cmd.ErrOrStderr(), lookupEnv).Colour,
	}
	var progress *starting
	if !stdio && (!logging.JSON() || cfg.Telemetry.Log.Format == config.LogAuto && console.IsTerminal(out)) {
		progress = newStarting(console.NewScreen(out, console.IsTerminal(out)))
		progress.lines, progress.style = true, console.StyleOf(out, lookupEnv)
	}
	together := progress != nil && console.IsTerminal(stderr) && console.IsTerminal(out)
	if together {
		logging.Through = folding{progress.screen.To(stderr), progress.screen.Columns()}
	}
	log, flush, err := telemetry.NewLogger(logging)
	if err != nil {
		return err
	}
	if together {
		log = log.WithOptions(zap.WrapCore(progress.quieten))
	}
	defer flush()
	// net/http quotes what a server sends without being asked, at any length.
	if restore, err := zap.RedirectStdLogAt(log, zap.DebugLevel); err == nil {
		defer restore()
	}
	// The first line says what starts, also where New and the configuration have warnings. Its time is that of the start.
	began := time.Now()
	held, release := telemetry.Hold(log)
	gateway.LogWarnings(held, cfg)
	if stdio && source.File == "" {
		var files []string // hosts start it in a folder of their own
		for _, file := range defaultFiles() {
			files = append(files, absolute(file))
		}
		held.Warn(noFile()+": serving the built-in demo", zap.Strings("looked_for", files))
	}

	opts := gateway.Options{
		Config: cfg, Demo: source.File == "", Source: source, Version: version(), Logger: held, LogLevel: logging.Current, Stdio: stdio,
		// Users of the demo have not chosen the ports.
		StateDirs: stateDirs(cfg), Profile: endpoint.IDOf(o.profile),
		AnyPort: source.File == "" && o.listen == "", AnyAdminPort: source.File == "" && o.adminListen == "",
	}
	if progress != nil {
		opts.Watch = progress.watch
	}
	g, err := gateway.New(opts)
	if err != nil {
		release()
		if errors.Is(err, syscall.EADDRINUSE) {
			err = o.taken(cmd.Context(), cfg, source.File, err)
		}
		return failed(log, logging.JSON(), err)
	}
	// A program that has read the first line of the log may send a signal at once.
	ctx, end := context.WithCancel(cmd.Context())
	defer end()
	defer onSignals(ctx, log, func() {
		end()
		if progress != nil {
			fmt.Fprintln(progress.screen, console.Fold("The gateway takes no new calls and waits for those that run. Ctrl-C again ends it at once.", progress.screen.Columns()))
		}
	})()
	if !stdio {
		defer onHangup(g, end)()
	}
	logStart(log, began, g, opts)
	if progress == nil && !stdio {
		for line := range strings.Lines(o.moved(cmd.Context(), g, source.File)) {
			log.Info("another program uses a usual address", zap.String("says", strings.TrimSpace(line)))
		}
	}
	release()
	if err := run(ctx, g, source.File, progress); err != nil {
		return failed(log, logging.JSON(), err)
	}
	return nil
}

// logStart writes the first line: what starts, with which file, and where it serves.
func logStart(log *zap.Logger, began time.Time, g *gateway.Gateway, o gateway.Options) {
	line := log.Check(zap.InfoLevel, "the gateway starts")
	if line == nil {
		return
	}
	line.Time = began
	fields := []zap.Field{zap.String("version", o.Version)}
	if o.Source.File == "" {
		fields = append(fields, zap.Bool("demo", true))
	} else {
		fields = append(fields, zap.String("config", absolute(o.Source.File)))
	}
	if o.Stdio {
		fields = append(fields, zap.Bool("stdio", true))
	} else {
		fields = append(fields, zap.String("url", g.URL()), zap.String("admin", g.AdminURL()))
	}
	line.Write(fields...)
}

// absolute returns the absolute form of a path, if there is one.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// failed reports the error of a gateway once: in the log if that is JSON, else as other verbs do.
func failed(log *zap.Logger, inLog bool, err error) error {
	if !inLog {
		return err
	}
	log.Error("gateway failed", zap.Error(err))
	return errReported
}

// load returns the configuration and its file. Without a file the gateway serves the demo upstreams.
func (o *runOptions) load() (*config.Config, gateway.Source, error) {
	files := defaultFiles()
	if o.file != "" {
		files = []string{o.file}
	}
	for _, file := range files {
		// A broken link is an error, and does not start the demo.
		if _, err := os.Lstat(file); o.file == "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		source := gateway.Source{File: file, Load: func(note func(string, []byte)) (*config.Config, error) {
			cfg, err := config.Load(file, lookupEnv, ruleset.CheckConditions(), config.WithFiles(note))
			if err != nil {
				return nil, err
			}
			return cfg, o.override(cfg)
		}}
		cfg, err := source.Load(source.Read.Note)
		return cfg, source, err
	}
	cfg := config.Default(lookupEnv)
	return cfg, gateway.Source{}, o.override(cfg)
}

// loadSaying is load for verbs whose answer is about a configuration: without a file it says that they answer about the
// demo. If the user runs one gateway with a file, it says how to ask about that one.
func (o *runOptions) loadSaying(stderr io.Writer) (*config.Config, gateway.Source, error) {
	cfg, source, err := o.load()
	if err == nil && source.File == "" && stderr != io.Discard {
		o.sayDemo(stderr, cfg)
	}
	return cfg, source, err
}

// sayDemo says that there is no file and the answer is about the demo.
func (o *runOptions) sayDemo(stderr io.Writer, cfg *config.Config) {
	folded(stderr, "note: %s: this is the built-in demo%s\n", noFile(), o.runsElsewhere(cfg))
}

// runsElsewhere says, for a message that there is no file, how to name the one of the only gateway that the user runs with
// a file; "" if there is none or more than one.
func (o *runOptions) runsElsewhere(cfg *config.Config) string {
	all := serving(context.Background(), cfg)
	if len(all) != 1 {
		return ""
	}
	hint := fmt.Sprintf("; you run %s: use -c %s", tilde(all[0].File), shellWord(all[0].File))
	if o.takesURL {
		hint += ", or --url " + all[0].URL
	}
	return hint
}

// noFileError is the error of a verb that needs a file and has none. It says how to name the file of the only gateway that the
// user runs; without one it is otherwise.
func (o *runOptions) noFileError(otherwise string) error {
	if hint := o.runsElsewhere(nil); hint != "" {
		return errors.New(noFile() + hint)
	}
	return errors.New(otherwise)
}

// noFile says where no configuration was found.
func noFile() string {
	text := "there is no gateway.yaml here"
	if files := defaultFiles(); len(files) > 1 {
		text += " or in " + tilde(filepath.Dir(files[1]))
	}
	return text
}

// override applies flags to the configuration.
func (o *runOptions) override(cfg *config.Config) error {
	if err := cfg.Override(o.listen, o.adminListen); err != nil {
		return usageError{err}
	}
	return nil
}

// defaultFiles are the paths of a configuration in the order of the search.
func defaultFiles() []string {
	files := []string{"gateway.yaml"}
	if dir, err := os.UserConfigDir(); err == nil {
		files = append(files, filepath.Join(dir, "mcpgateway", "gateway.yaml"))
	}
	return files
}

// moved says which of the usual addresses other programs use.
func (o *runOptions) moved(ctx context.Context, g *gateway.Gateway, source string) string {
	out, usual := "", config.Default(lookupEnv)
	for _, a := range []struct{ what, flag, given, usual, now string }{
		{"MCP is", "--listen", o.listen, usual.Listen, g.Addr()},
		{"health and metrics are", "--admin-listen", o.adminListen, usual.Admin.Listen, g.AdminAddr()},
	} {
		if source == "" && a.given == "" && a.now != a.usual {
			taken := "another program"
			if r := userAt(ctx, nil, a.usual); r != nil {
				taken = r.name()
			}
			out += fmt.Sprintf("%s is taken by %s: %s on %s (choose with %s).\n", a.usual, taken, a.what, a.now, a.flag)
		}
	}
	return out
}
