package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/wire"
)

// visitOptions are the flags of verbs that use upstreams without serving them.
type visitOptions struct {
	runOptions // of which only the file is used
	url        string
	headers    []string
	as         string
}

func (o *visitOptions) flags(cmd *cobra.Command) {
	o.configFlag(cmd)
	cmd.Flags().StringVar(&o.url, "url", "", "`URL` of an MCP server to speak to, in place of the configured upstreams")
	cmd.Flags().StringArrayVar(&o.headers, "header", nil, "HTTP `HEADER` for --url, as 'Name: value'; may be repeated")
	o.asFlag(cmd, "whose view it is")
}

// asFlag is the flag that says who asks. One that is there and empty, as from a variable
// of a shell that is not set, would be somebody else than was meant.
func (o *visitOptions) asFlag(cmd *cobra.Command, of string) {
	usage := "`PRINCIPAL` " + of + ", as SUBJECT,group=G,scope=S,issuer=I,proof=P,claim.NAME=VALUE (default: who proves nothing)"
	cmd.Flags().Func("as", usage, func(text string) error {
		if text == "" {
			return errors.New("it begins with the subject, such as alice,group=dev, and is empty")
		}
		o.as = text
		return nil
	})
}

// config returns the configuration, and the file that it came from.
func (o *visitOptions) config() (*config.Config, string, error) {
	if o.url == "" {
		if len(o.headers) > 0 {
			return nil, "", usageError{errors.New("--header is for --url")}
		}
		cfg, source, err := o.load()
		return cfg, source.File, err
	}
	if o.file != "" || o.as != "" {
		return nil, "", usageError{errors.New("--url stands for the upstreams and for who asks: leave -c and --as out")}
	}
	u := config.DefaultUpstream(hostOf(o.url))
	none := ""
	u.URL, u.Prefix = o.url, &none
	u.Headers = make(map[string]config.Secret)
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, "", usageError{fmt.Errorf("--header must be 'Name: value'; there is no colon in it")}
		}
		u.Headers[strings.TrimSpace(name)] = config.NewSecret(strings.TrimSpace(value))
	}
	if err := u.Valid(); err != nil {
		return nil, "", usageError{err}
	}
	cfg := config.Default(lookupEnv)
	cfg.Upstreams = []config.Upstream{u}
	cfg.Asks.Label = false // there is but one who asks
	cfg.StateDir = ""
	return cfg, o.url, nil
}

// hostOf is what messages call the server at a URL: its host, if it has one.
func hostOf(text string) string {
	if u, err := url.Parse(text); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	return text
}

// read returns the configuration, where it came from, and whose view it is.
func (o *visitOptions) read() (*config.Config, string, *call.Principal, error) {
	cfg, source, err := o.config()
	if err != nil {
		return nil, "", nil, err
	}
	who, err := o.principal(cfg)
	return cfg, source, who, err
}

// only keeps the upstreams that a public name may belong to: the one whose prefix
// it has, and those without a prefix. A name that has no prefix may be anybody's.
func only(cfg *config.Config, public string) {
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

// principal is whose view it is. Nobody has to prove anything to a command that has
// the configuration at hand; the principal is what a proof would have made of it.
func (o *visitOptions) principal(cfg *config.Config) (*call.Principal, error) {
	if o.as == "" {
		return call.Anonymous, nil
	}
	p, err := parsePrincipal(o.as)
	if err != nil {
		return nil, err
	}
	return gateway.AssumedPrincipal(cfg, p), nil
}

// nobody says on standard error that it is the view of somebody who cannot be
// there: of a gateway that asks for a proof without one.
func (o *visitOptions) nobody(cmd *cobra.Command, cfg *config.Config) {
	if o.as != "" || o.url != "" || cfg.Auth.Has(config.AuthNone) {
		return
	}
	errs := cmd.ErrOrStderr()
	fmt.Fprintf(errs, "%s: clients have to prove who they are (auth.mode), and without --as it is nobody who asks; --as SUBJECT,group=G says who does\n",
		console.StyleOf(errs, lookupEnv).Warn("warning"))
}

// proofs are what a principal can be proved by.
var proofs = []string{"none", "local", auth.MethodAPIKey, auth.MethodToken, auth.MethodCertificate}

// parsePrincipal reads SUBJECT,group=G,scope=S,issuer=I,proof=P,claim.NAME=VALUE. A
// value of a claim that is JSON is taken as that, any other as a string.
func parsePrincipal(text string) (*call.Principal, error) {
	subject, rest, _ := strings.Cut(text, ",")
	p := &call.Principal{Subject: subject}
	if subject == "" || strings.Contains(subject, "=") {
		return nil, usageError{fmt.Errorf("--as %s: it begins with the subject, such as alice,group=dev", text)}
	}
	for word := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case word == "" && rest == "":
		case key == "group" && value != "":
			p.Groups = append(p.Groups, value)
		case key == "scope" && value != "":
			p.Scopes = append(p.Scopes, value)
		case key == "issuer" && value != "":
			p.Issuer = value
		case key == "proof":
			if !slices.Contains(proofs, value) {
				return nil, usageError{fmt.Errorf("--as %s: %q is none of the proofs %s", text, value, strings.Join(proofs, ", "))}
			}
			p.AuthMethod = value
		case strings.HasPrefix(key, "claim.") && len(key) > len("claim.") && value != "":
			claim := wire.Raw(value)
			if wire.Check(claim, wire.Limits{}, wire.Strict) != nil {
				claim = wire.String(value)
			}
			if p.Claims == nil {
				p.Claims = wire.Raw(`{}`)
			}
			p.Claims = wire.SetMember(p.Claims, strings.TrimPrefix(key, "claim."), claim)
		default:
			return nil, usageError{fmt.Errorf("--as %s: %q is none of group=G, scope=S, issuer=I, proof=P and claim.NAME=VALUE", text, word)}
		}
	}
	return p, nil
}

// visit runs the upstreams of a configuration while do uses them. It ends with
// the first SIGINT or SIGTERM, and after timeout unless that is 0.
func visit(cmd *cobra.Command, cfg *config.Config, source string, timeout time.Duration, watch func(inspect.Upstream),
	do func(ctx context.Context, v *gateway.InProcess) error,
) error {
	o := gateway.Options{Config: cfg, Demo: source == "", Version: version(), Logger: zap.NewNop(), InProcess: true, Watch: watch}
	if len(cfg.Upstreams) == 0 || source != cfg.Upstreams[0].URL { // it is no --url
		o.Source = gateway.Source{File: source}
	}
	g, err := gateway.New(o)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	return g.RunInProcess(ctx, do)
}

// timeoutFlag is --timeout of the verbs that wait for all upstreams.
func timeoutFlag(cmd *cobra.Command, to *time.Duration) {
	cmd.Flags().DurationVar(to, "timeout", 30*time.Second, "how long upstreams may take altogether, as `DURATION`")
}

// visitStarted is visit for verbs that look at what upstreams offer: do is called
// once all have ended their first attempt, or timeout is over. Until then whoever sits
// at the terminal sees on the screen which are waited for.
func visitStarted(cmd *cobra.Command, cfg *config.Config, source string, timeout time.Duration,
	do func(ctx context.Context, v *gateway.InProcess, screen *console.Screen) error,
) error {
	progress := newProgress(cmd)
	return visit(cmd, cfg, source, 0, progress.watch, func(ctx context.Context, v *gateway.InProcess) error {
		progress.begin(v.Upstreams())
		timed, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err := v.WaitStarted(timed)
		progress.screen.Status("")
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return do(ctx, v, progress.screen)
	})
}

// newProgress shows on standard error, if that is a terminal, what is waited for.
func newProgress(cmd *cobra.Command) *starting {
	stderr := cmd.ErrOrStderr()
	return newStarting(console.NewScreen(stderr, console.IsTerminal(stderr)))
}

// errTimeout is that --timeout is over.
var errTimeout = errors.New("the time is over (--timeout)")

// late says of an upstream whose first attempt had not ended when the time was over
// what is known to be amiss, or else that it may need longer.
func late(timeout time.Duration, amiss, such string) string {
	if amiss != "" {
		return fmt.Sprintf("it was not ready within %s: %s", timeout, amiss)
	}
	return fmt.Sprintf("it was not ready within %s; if it needs longer%s, raise --timeout", timeout, such)
}
