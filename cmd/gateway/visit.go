package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/clientauth"
	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/ruleset"
	"mcpgateway/internal/upstream/diagnose"
)

// visitOptions are the flags of verbs that use upstreams without serving them.
type visitOptions struct {
	runOptions // only the file is used
	url        string
	headers    []string
	as         string
}

func (o *visitOptions) flags(cmd *cobra.Command) {
	o.configFlag(cmd)
	cmd.Flags().StringVar(&o.url, "url", "", "`URL` of an MCP server, in place of the configured upstreams")
	cmd.Flags().StringArrayVar(&o.headers, "header", nil, "HTTP `HEADER` for --url, as 'Name: value'; may be repeated")
	o.takesURL = true
	o.asFlag(cmd, "whose view it is")
	o.profileFlag(cmd, profileUsage)
}

// asFlag adds the flag for the principal. An empty value, for example from a shell variable that is not
// set, is refused, since it would be another principal than the user expects.
func (o *visitOptions) asFlag(cmd *cobra.Command, of string) {
	usage := "`PRINCIPAL` " + of + ", as SUBJECT,group=G,scope=S,issuer=I,proof=P,claim.NAME=VALUE; dots in NAME lead to members (default: a client without credentials)"
	cmd.Flags().Func("as", usage, func(text string) error {
		if text == "" {
			return errors.New("it is empty; begin with the subject, such as alice,group=dev")
		}
		o.as = text
		return nil
	})
}

// profileUsage describes --profile of verbs that show a view.
const profileUsage = "profile `NAME` of the view (default: the one that the principal gets at /mcp)"

// config returns the configuration and its file.
func (o *visitOptions) config(stderr io.Writer) (*config.Config, string, error) {
	if o.url == "" {
		if len(o.headers) > 0 {
			return nil, "", usageError{errors.New("--header is for --url")}
		}
		cfg, source, err := o.loadSaying(stderr)
		if err == nil {
			err = o.knownProfile(cfg)
		}
		return cfg, source.File, err
	}
	if o.profile != "" {
		return nil, "", usageError{errors.New("--profile is for the configured gateway; for a profile of a gateway at --url write its URL, such as http://127.0.0.1:8080/mcp/NAME")}
	}
	if o.file != "" || o.as != "" {
		return nil, "", usageError{errors.New("--url replaces the upstreams and the principal: remove -c and --as")}
	}
	if isHost.MatchString(o.url) {
		return nil, "", usageError{fmt.Errorf("--url %s has no scheme: write --url %s", o.url, urlOf(o.url))}
	}
	u := config.DefaultUpstream(urlUpstream)
	none := ""
	u.URL, u.Prefix = o.url, &none
	u.Headers = make(map[string]config.Secret)
	for _, h := range o.headers {
		name, value, err := cutHeader(h)
		if err != nil {
			return nil, "", err
		}
		u.Headers[name] = config.NewSecret(value)
	}
	if err := u.Valid(); err != nil {
		return nil, "", usageError{err}
	}
	cfg := config.Default(lookupEnv)
	cfg.Upstreams = []config.Upstream{u}
	cfg.Asks.Label = false // only one server asks
	cfg.StateDir = ""
	return cfg, o.url, nil
}

// urlUpstream is the name of the server at --url in messages.
const urlUpstream = "server"

// reason is advice about an upstream as text for the user. The server at --url has no entry in a configuration whose
// headers and auth the user could set.
func (o *visitOptions) reason(advice string) string {
	if o.url == "" {
		return advice
	}
	return withoutEntry(advice)
}

// withoutEntry is advice about a server that has no entry in a configuration.
func withoutEntry(advice string) string {
	request := "" // the end of the advice
	if at := strings.LastIndex(advice, diagnose.RequestMark); at >= 0 {
		advice, request = advice[:at], advice[at:]
	}
	advice, _, _ = strings.Cut(advice, ". This server uses OAuth: auth:")
	advice = ofHeaderFlag.Replace(advice)
	for _, other := range [][2]string{
		{`give them under headers, such as Authorization: "Bearer ${TOKEN}", or under auth`, "give them with --header 'Authorization: Bearer KEY'"},
		{"this server uses OAuth: ", "it wants credentials; give them with --header 'Authorization: Bearer KEY', or, since it uses OAuth, add it with gateway add NAME URL --oauth, then run gateway login NAME"},
		{"name a file with that authority's certificate under ca", "make this machine trust that authority, on Linux with SSL_CERT_FILE=FILE"},
	} {
		if before, _, found := strings.Cut(advice, other[0]); found {
			return before + other[1] + request
		}
	}
	return advice + request
}

// ofHeaderFlag names the credentials of the server at --url.
var ofHeaderFlag = strings.NewReplacer("credentials under headers or auth", "credentials of --header", "credentials under headers", "credentials of --header")

// read returns the configuration, its file and the principal.
func (o *visitOptions) read(cmd *cobra.Command) (*config.Config, string, *call.Principal, error) {
	cfg, source, err := o.config(cmd.ErrOrStderr())
	if err != nil {
		return nil, "", nil, err
	}
	if o.url != "" {
		if right := mcpURLBehind(cmd.Context(), o.url); right != "" {
			return nil, "", nil, usageError{fmt.Errorf("--url %s is the admin address of your gateway: write its MCP URL, --url %s", o.url, right)}
		}
	}
	who, err := o.principal(cmd, cfg)
	return cfg, source, who, err
}

// keepUpstreamsOf keeps the upstreams that may have a public name: the one with its prefix, and those without a
// prefix. Any upstream may have a name without a prefix.
func keepUpstreamsOf(cfg *config.Config, public string) {
	owned := func(u config.Upstream) bool {
		p := u.EffectivePrefix()
		return p != "" && strings.HasPrefix(public, p+cfg.Namespace.Separator)
	}
	if !slices.ContainsFunc(cfg.Upstreams, func(u config.Upstream) bool { return owned(u) && !u.Disabled }) {
		return
	}
	cfg.Upstreams = slices.DeleteFunc(slices.Clone(cfg.Upstreams), func(u config.Upstream) bool {
		return !owned(u) && u.EffectivePrefix() != ""
	})
}

// keepUpstreams keeps the upstreams that a view needs: those of the profile, and of them those of public, if that is the name
// of an item.
func keepUpstreams(cfg *config.Config, who *call.Principal, public string) {
	if len(cfg.Profiles) > 0 {
		cfg.Upstreams = ruleset.UpstreamsOf(cfg, who.Profile)
	}
	at := slices.IndexFunc(cfg.Profiles, func(p config.Profile) bool { return endpoint.IDOf(p.Name) == who.Profile })
	if public == "" || at >= 0 && (cfg.Profiles[at].Names == config.NamesShort || len(cfg.Profiles[at].ToolFiles) > 0) {
		return // a short name, and that of a tool that calls others, may begin with the prefix of another upstream
	}
	keepUpstreamsOf(cfg, public)
}

// principal is the principal of the view. A command that can read the configuration needs no
// credentials: the flag describes the principal. A warning says what does not fit the configuration.
func (o *visitOptions) principal(cmd *cobra.Command, cfg *config.Config) (*call.Principal, error) {
	who, refused, err := o.principalOr(cmd, cfg)
	warn(cmd, refused)
	return who, err
}

// principalOr is principal, but says in place of a warning why the gateway refuses the requests of the principal in the
// profile, "" if it does not.
func (o *visitOptions) principalOr(cmd *cobra.Command, cfg *config.Config) (who *call.Principal, refused string, err error) {
	who, remarks, refused, err := o.assumed(cfg)
	for _, remark := range remarks {
		warn(cmd, remark)
	}
	return who, refused, err
}

// warn writes a warning, unless it is empty.
func warn(cmd *cobra.Command, text string) {
	if text != "" {
		errs := cmd.ErrOrStderr()
		folded(errs, "%s: %s\n", console.StyleOf(errs, lookupEnv).Warn("warning"), text)
	}
}

// assumed is principalOr without the warnings, which it returns.
func (o *visitOptions) assumed(cfg *config.Config) (who *call.Principal, remarks []string, refused string, err error) {
	if o.as == "" {
		return call.Anonymous.In(endpoint.IDOf(o.profile)), nil, "", nil
	}
	p, err := inspect.ParsePrincipal(o.as)
	if err != nil {
		return nil, nil, "", usageError{fmt.Errorf("--as %s: %w", o.as, err)}
	}
	return clientauth.Assume(cfg, p, o.profile)
}

// warnWithoutCredentials warns that the view is that of a client without credentials, although the gateway demands them.
func (o *visitOptions) warnWithoutCredentials(cmd *cobra.Command, cfg *config.Config) {
	if o.as != "" || o.url != "" || cfg.Auth.Has(config.AuthNone) {
		return
	}
	warn(cmd, "clients must authenticate (auth.mode), and no client gets this view, which is that of requests without credentials; set a principal with --as SUBJECT,group=G")
}

// visit runs the upstreams of a configuration while do uses them. It ends with the first SIGINT or SIGTERM,
// and after timeout, if timeout is not 0.
func visit(cmd *cobra.Command, cfg *config.Config, source string, timeout time.Duration, watch func(inspect.Upstream),
	do func(ctx context.Context, v *gateway.InProcess) error,
) error {
	o := gateway.Options{Config: cfg, Demo: source == "", Version: version(), Logger: zap.NewNop(), InProcess: true, Watch: watch}
	if len(cfg.Upstreams) == 0 || source != cfg.Upstreams[0].URL { // without --url
		o.Source = gateway.Source{File: source}
	}
	g, err := gateway.New(o)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	timed, cancel := within(ctx, timeout)
	defer cancel()
	if err = g.RunInProcess(timed, do); err != nil && ctx.Err() != nil {
		return errCanceled
	}
	return err
}

// errCanceled is the error of a verb that a signal has ended.
var errCanceled = errors.New("canceled")

// interruption is a signal that ends a verb.
type interruption struct{ os.Signal }

// Error implements error.
func (i interruption) Error() string { return errCanceled.Error() }

// untilSignal is [signal.NotifyContext] for the signals that end a verb. An interruption is the cause of the end.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case sig := <-signals:
			cancel(interruption{sig})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// within returns a context that ends after timeout with errTimeout as its cause. A timeout of 0 is none.
func within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, timeout, errTimeout)
}

// timeoutFlag adds --timeout to a verb that waits for all upstreams.
func timeoutFlag(cmd *cobra.Command, to *time.Duration) {
	cmd.Flags().DurationVar(to, "timeout", 30*time.Second, "how long all upstreams together may take, as `DURATION`; 0 means their own limits")
}

// visitStarted is visit for verbs that read the lists of upstreams: do is called after all have finished
// their first attempt, or after timeout, if timeout is not 0. Until then a terminal shows the upstreams that have not.
func visitStarted(cmd *cobra.Command, cfg *config.Config, source string, timeout time.Duration,
	do func(ctx context.Context, v *gateway.InProcess, screen *console.Screen) error,
) error {
	progress := newProgress(cmd)
	return visit(cmd, cfg, source, 0, progress.watch, func(ctx context.Context, v *gateway.InProcess) error {
		if err := progress.wait(ctx, v, timeout); err != nil {
			return err
		}
		return do(ctx, v, progress.screen)
	})
}

// wait waits until all upstreams have finished their first attempt, or timeout has passed, if it is not 0, and shows those that have not.
// The error is the cause of the end of ctx.
func (s *starting) wait(ctx context.Context, v *gateway.InProcess, timeout time.Duration) error {
	s.begin(v.Upstreams())
	timed, cancel := within(ctx, timeout)
	defer cancel()
	err := v.WaitStarted(timed)
	s.screen.Status("")
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// newProgress shows on standard error, if it is a terminal, the upstreams that have not started.
func newProgress(cmd *cobra.Command) *starting {
	stderr := cmd.ErrOrStderr()
	return newStarting(console.NewScreen(stderr, console.IsTerminal(stderr)))
}

// errTimeout is the error at the end of --timeout.
var errTimeout = errors.New("timed out (--timeout)")

// unfinishedReason describes an upstream that has not finished its first attempt at the end of the timeout: the known
// error, or that it may need longer. A program may have to be downloaded first; a server with a URL is not started.
func unfinishedReason(timeout time.Duration, reason string, remote bool) string {
	switch {
	case reason != "":
		return fmt.Sprintf("it was not ready within %s: %s", timeout, reason)
	case remote:
		return fmt.Sprintf("it has not answered within %s: check that an MCP server is at work there; if it is slow, raise --timeout", timeout)
	}
	return fmt.Sprintf("it was not ready within %s; if it needs longer, such as for a download, raise --timeout", timeout)
}

// isRemote reports whether an upstream has a URL.
func isRemote(cfg *config.Config, upstream string) bool {
	return slices.ContainsFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Name == upstream && u.URL != "" })
}
