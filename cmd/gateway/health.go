package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
)

// maxHealth bounds the answer, which names at most every upstream.
const maxHealth = 1 << 20

// healthOptions are the flags of `gateway health`.
type healthOptions struct {
	runOptions
	url     string
	ready   bool
	timeout time.Duration
}

func newHealth() *cobra.Command {
	var opts healthOptions
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a running gateway whether it is healthy",
		Long: "health asks the admin address of a running gateway whether it is healthy, or with\n" +
			"--ready whether it is ready for traffic, and exits with 0 or 1. It is for health\n" +
			"checks of containers without other programs. Without --url it asks the admin\n" +
			"address in the configuration, on this machine; it finds the configuration as run\n" +
			"does. Errors of the configuration are warnings: a gateway that runs goes on with\n" +
			"the one before.",
		Example: "  gateway health\n  gateway health --ready\n  gateway health --url http://127.0.0.1:9090",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return opts.run(cmd) },
	}
	opts.configFlag(cmd)
	cmd.Flags().StringVar(&opts.url, "url", "", "`URL` of the admin address, such as http://127.0.0.1:9090")
	cmd.Flags().BoolVar(&opts.ready, "ready", false, "ask /readyz instead of /healthz")
	cmd.Flags().DurationVar(&opts.timeout, "timeout", 3*time.Second, "how long to wait for the answer, as `DURATION`")
	return cmd
}

func (o *healthOptions) run(cmd *cobra.Command) error {
	base, unread, err := o.base(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	target := base + "/healthz"
	if o.ready {
		target = base + "/readyz"
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	page, err := askHealth(ctx, &http.Transport{DisableKeepAlives: true}, target)
	if unread != nil && !hasConfigErrors(unread) && errors.Is(err, errNothingListens) {
		return unread
	}
	warnUnread(cmd.ErrOrStderr(), unread, nil)
	if err != nil {
		return err
	}
	if hasConfigErrors(unread) {
		folded(cmd.ErrOrStderr(), "warning: the gateway that runs keeps its configuration; a start with these errors would fail\n")
	}
	more := o.readiness(ctx, base, page) // it decides nothing
	if page.unhealthy {
		return fmt.Errorf("%s: %s: %s", target, page.Status, cmp.Or(strings.Join(more.Waiting, "; "), strings.Join(page.Waiting, "; "), page.answer))
	}
	folded(cmd.OutOrStdout(), "%s: ok\n", target)
	for _, text := range slices.Concat(more.Down, more.Failing) {
		folded(cmd.OutOrStdout(), "  %s\n", console.Line(text))
	}
	return nil
}

// readiness returns the page of readiness of a gateway that has answered with a page. That of a gateway of this user comes from
// its socket, with the causes that gateway status prints; the page at the admin address is for everybody and leaves them out.
func (o *healthOptions) readiness(ctx context.Context, base string, page healthPage) healthPage {
	var cfg *config.Config
	if o.url == "" {
		cfg, _, _ = o.locate()
	}
	if r := adminBehind(ctx, cfg, base); r != nil {
		if own, err := askHealth(ctx, r.transport, r.base+"/readyz"); err == nil {
			return own
		}
	}
	if o.ready {
		return page
	}
	page, _ = askHealth(ctx, &http.Transport{DisableKeepAlives: true}, base+"/readyz")
	return page
}

// base is the URL of the admin address, without a path. A file that cannot be used is no reason not to ask the gateway that runs
// with it: unread is then the error of the file.
func (o *healthOptions) base(ctx context.Context, stderr io.Writer) (base string, unread, err error) {
	if o.url != "" && o.file != "" {
		return "", nil, usageError{errors.New("--url and --config both name a gateway; give one of them")}
	}
	if o.url != "" {
		base, err = adminURL(o.url)
		return base, nil, err
	}
	cfg, source, unread := o.locate()
	base = "http://" + localAddress(cfg.Admin.Listen)
	if source.File == "" {
		o.sayDemo(stderr, cfg)
		return base, nil, nil
	}
	asked := reachOptions{runOptions: runOptions{file: source.File}, timeout: o.timeout}
	all := asked.ofUser(ctx, cfg)
	there := listensAt(all, cfg.Admin.Listen)
	if there != nil && asked.concerns(there.status) {
		return base, unread, nil
	}
	for _, r := range all { // a flag of run or an edit of the file since has moved it
		if r.status.AdminURL != "" && asked.concerns(r.status) {
			return r.status.AdminURL, unread, nil
		}
	}
	switch {
	case there != nil && unread == nil:
		return "", nil, fmt.Errorf("you run no gateway with %s; on %s you run another one: %s", source.File, base, there.name())
	case there != nil, cfg.Admin.Listen == "": // it may be anywhere
		return "", nil, unread
	}
	return base, unread, nil
}

// localAddress is the address at which this machine reaches a listener. A listener on every address is
// reached on loopback.
func localAddress(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}

var errNothingListens = errors.New("nothing listens there: start the gateway, or give the admin address of the running one with --url, or its configuration with -c")

// healthPage is a health page of a gateway: why it is not ready, and what is down or fails all the same.
type healthPage struct {
	Status  string   `json:"status"`
	Waiting []string `json:"waiting"`
	Down    []string `json:"down"`
	Failing []string `json:"failing"`

	answer    string // the HTTP status
	unhealthy bool   // it is not 200
}

// askHealth returns a health page of the gateway. transport uses no proxy, and redirects are not followed, so that only the
// gateway can answer.
func askHealth(ctx context.Context, transport http.RoundTripper, target string) (page healthPage, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return page, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			err = errors.New("no answer in time")
		case errors.Is(err, syscall.ECONNREFUSED):
			err = errNothingListens
		}
		return page, fmt.Errorf("%s: %w", target, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealth))
	if err != nil {
		return page, fmt.Errorf("%s: %w", target, err)
	}
	if err := json.Unmarshal(body, &page); err != nil || page.Status == "" {
		return page, fmt.Errorf("%s: answered %s, but not with the health page of a gateway; --url must be the admin address", target, resp.Status)
	}
	page.answer, page.unhealthy = resp.Status, resp.StatusCode != http.StatusOK
	return page, nil
}
