package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/config"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/instance"
	"mcpgateway/internal/plaintext"
)

// reachOptions are the flags of verbs that ask a running gateway.
type reachOptions struct {
	runOptions // only the file is used
	url        string
	headers    []string
	timeout    time.Duration

	// unread is why the file cannot be used, if find has asked its admin address all the same.
	unread error
}

func (o *reachOptions) flags(cmd *cobra.Command) {
	o.configFlag(cmd)
	cmd.Flags().StringVar(&o.url, "url", "", "`URL` of an admin address, such as http://127.0.0.1:9090, instead of the gateways that you run here")
	cmd.Flags().StringArrayVar(&o.headers, "header", nil, "HTTP `HEADER` for --url, such as 'Authorization: Bearer TOKEN'; may be repeated")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "how long to wait for an answer, as `DURATION`")
}

// serviceStateDir is the state folder of the service in the packages for Linux. Only root can look into it.
const serviceStateDir = "/var/lib/mcpgateway"

// stateDirs are the folders for the socket of a gateway of this user: the state folder of the user, and for users without
// one that of the configuration, which may be nil.
func stateDirs(cfg *config.Config) []string {
	dirs := []string{config.Default(lookupEnv).StateDir}
	if cfg != nil {
		dirs = append(dirs, cfg.StateDir)
	}
	return dirs
}

// running is a gateway that runs.
type running struct {
	base      string // the URL before the path
	transport http.RoundTripper
	header    http.Header
	status    *inspect.Status // nil if it was not asked
}

// find returns the gateways to ask, at least one.
func (o *reachOptions) find(ctx context.Context) ([]*running, error) {
	header, err := headersOf(o.headers)
	if err != nil {
		return nil, err
	}
	if o.url != "" {
		if o.file != "" {
			return nil, usageError{errors.New("--url and --config both name a gateway; give one of them")}
		}
		base, err := adminURL(o.url)
		return []*running{{base: base, transport: &http.Transport{DisableKeepAlives: true}, header: header}}, err
	}
	if len(header) > 0 {
		return nil, usageError{errors.New("--header is for --url")}
	}
	cfg, _, loadErr := o.locate()
	all := o.ofUser(ctx, cfg)
	others := slices.DeleteFunc(slices.Clone(all), func(r *running) bool { return o.concerns(r.status) })
	all = slices.DeleteFunc(all, func(r *running) bool { return !o.concerns(r.status) })
	switch {
	case len(all) > 0:
		return all, nil
	case loadErr != nil && cfg.Admin.Listen == "":
		return nil, loadErr
	}
	r := &running{base: "http://" + localAddress(cfg.Admin.Listen), transport: &http.Transport{DisableKeepAlives: true}, header: http.Header{}}
	if token := cfg.Admin.Token.Reveal(); token != "" {
		r.header.Set("Authorization", "Bearer "+token)
	}
	if there := listensAt(others, cfg.Admin.Listen); there != nil {
		if loadErr != nil {
			return nil, loadErr
		}
		return nil, fmt.Errorf("you run no gateway with %s; on %s you run another one: %s", o.file, r.base, there.name())
	}
	err = o.ask(ctx, r, http.MethodGet, "/-/status", &r.status)
	silent := errors.Is(err, syscall.ECONNREFUSED)
	if silent && loadErr != nil && !hasConfigErrors(loadErr) {
		return nil, loadErr
	}
	o.unread = loadErr
	if err != nil && config.Default(lookupEnv).StateDir == "" {
		// The socket of a gateway of this user is in a folder that is not known.
		nothing := ""
		if silent {
			nothing = ", and nothing listens on " + r.base
		}
		return nil, fmt.Errorf("HOME is not set, so the gateways that you run cannot be found%s: set HOME to that of the gateway, "+
			"or name the admin address of one that has admin.token with --url", nothing)
	}
	if silent {
		with := ""
		if o.file != "" {
			with = " with " + o.file
		}
		return nil, fmt.Errorf("you run no gateway%s on this machine, and nothing listens on %s: start one with \"gateway run%s\", or name the admin address of another one with --url", with, r.base, advice.ConfigFlag())
	}
	return []*running{r}, err
}

// locate is load for verbs that ask the gateway of a file. With an error, which is a reason to ask it, the configuration
// only says where the gateway may be found, see [config.Located].
func (o *runOptions) locate() (*config.Config, gateway.Source, error) {
	cfg, source, err := o.load()
	if err != nil {
		cfg = config.Located(source.File, lookupEnv)
	}
	return cfg, source, err
}

// hasConfigErrors reports whether err is about what a configuration file says: the file was read, and a gateway that runs with
// it goes on with what it had before.
func hasConfigErrors(err error) bool {
	_, ok := errors.AsType[config.Errors](err)
	return ok
}

// warnUnread prints why a file cannot be used, for verbs that have asked a gateway all the same, without the errors that
// the gateway has named. A nil err is none.
func warnUnread(w io.Writer, err error, named []inspect.ReloadError) {
	var errs config.Errors
	if err == nil {
		return
	}
	if !errors.As(err, &errs) {
		folded(w, "warning: %s\n", err)
	}
	for _, e := range errs {
		same := func(n inspect.ReloadError) bool {
			return n.Line == e.Line && n.Column == e.Col && n.Key == e.Path && n.Message == e.Msg
		}
		if !slices.ContainsFunc(named, same) {
			folded(w, "warning: %s\n", e)
		}
	}
}

// ofUser returns the gateways that this user runs, for root also the service, with their status: those that listen come first, then the oldest.
func (o *reachOptions) ofUser(ctx context.Context, cfg *config.Config) []*running {
	var all []*running
	for _, i := range instance.Find(append(stateDirs(cfg), serviceStateDir)...) {
		r := &running{base: "http://gateway", transport: i.Transport()}
		if err := o.ask(ctx, r, http.MethodGet, "/-/status", &r.status); err == nil {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *running) int {
		return cmp.Or(cmp.Compare(a.status.Mode, b.status.Mode), a.status.Since.Compare(b.status.Since))
	})
	return all
}

// ofFile returns the gateways that this user runs with the file, with their status.
func (o *reachOptions) ofFile(ctx context.Context, cfg *config.Config) []*running {
	return slices.DeleteFunc(o.ofUser(ctx, cfg), func(r *running) bool { return !o.concerns(r.status) })
}

// listensAt returns the gateway that listens on an address, for MCP or for health and metrics, nil if none does.
func listensAt(all []*running, address string) *running {
	base := "http://" + localAddress(address)
	for _, r := range all {
		if s := r.status; s.AdminURL == base || s.URL == base || strings.HasPrefix(s.URL, base+"/") {
			return r
		}
	}
	return nil
}

// maxAskUser is how long an error waits for the answer of a gateway that it may name.
const maxAskUser = 2 * time.Second

// userAt returns the gateway of this user that listens on an address, nil if none does.
func userAt(ctx context.Context, cfg *config.Config, address string) *running {
	return listensAt((&reachOptions{timeout: maxAskUser}).ofUser(ctx, cfg), address)
}

// serving returns the gateways of this user that serve a file at a URL.
func serving(ctx context.Context, cfg *config.Config) []*inspect.Status {
	var all []*inspect.Status
	for _, r := range (&reachOptions{timeout: maxAskUser}).ofUser(ctx, cfg) {
		if r.status.File != "" && r.status.URL != "" {
			all = append(all, r.status)
		}
	}
	return all
}

// servedFunc is the type of Served in [hostimport.Options].
type servedFunc = func(url string) (gateway string, own bool)

// servedFor returns a function for the servers that are imported into a file, "" for standard output. A gateway that runs
// with the file may have other addresses than the file, from flags.
func servedFor(ctx context.Context, file string) servedFunc {
	cfg, _ := config.Load(file, lookupEnv) // without it the state folder is the user's
	all := (&reachOptions{timeout: maxAskUser}).ofUser(ctx, cfg)
	return func(at string) (string, bool) {
		for _, r := range all {
			if r.leadsTo(at) {
				return r.name(), file != "" && r.status.File != "" && sameFile(file, r.status.File)
			}
		}
		return "", false
	}
}

// leadsTo reports whether a URL leads to an address of a gateway.
func (r *running) leadsTo(at string) bool {
	own := config.Config{Listen: hostOf(r.status.URL)}
	own.Admin.Listen = hostOf(r.status.AdminURL)
	return own.OwnAddress(at) != ""
}

// nearProfile returns the profile whose name is near to the one in a URL of a gateway of this user, "" if there is none.
func nearProfile(ctx context.Context, at string) string {
	for _, r := range (&reachOptions{timeout: maxAskUser}).ofUser(ctx, nil) {
		if !r.leadsTo(at) {
			continue
		}
		var names []string
		for _, p := range r.status.Profiles {
			names = append(names, p.Name)
		}
		return plaintext.Nearest(at[strings.LastIndex(at, "/")+1:], names)
	}
	return ""
}

// mcpURLBehind returns the MCP URL of the gateway of this user whose admin address a URL leads to, "" for another URL.
func mcpURLBehind(ctx context.Context, at string) string {
	if r := adminBehind(ctx, nil, at); r != nil {
		return r.status.URL
	}
	return ""
}

// adminBehind returns the gateway of this user whose admin address a URL leads to, nil for another URL. cfg may be nil, as for stateDirs.
func adminBehind(ctx context.Context, cfg *config.Config, at string) *running {
	for _, r := range (&reachOptions{timeout: maxAskUser}).ofUser(ctx, cfg) {
		admin := config.Config{}
		admin.Admin.Listen = hostOf(r.status.AdminURL)
		if admin.Admin.Listen != "" && admin.OwnAddress(at) != "" {
			return r
		}
	}
	return nil
}

// hostOf is the host of a URL, with its port.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// taken is the error of a gateway whose address is in use. It names the gateway of this user that has the address.
func (o *runOptions) taken(ctx context.Context, cfg *config.Config, file string, err error) error {
	for _, address := range []string{cfg.Listen, cfg.Admin.Listen} {
		r := userAt(ctx, cfg, address)
		switch {
		case r == nil:
		case r.status.File != "" && file != "" && sameFile(file, r.status.File) && o.listen == "" && o.adminListen == "":
			return fmt.Errorf("%s is served already (process %d): \"gateway status\" shows it; stop that one first, or choose other addresses with --listen and --admin-listen", tilde(r.status.File), r.status.PID)
		case r.status.File != "":
			return fmt.Errorf("%s is taken by your gateway of %s: stop it, or choose other addresses with --listen and --admin-listen", address, r.name())
		default:
			return fmt.Errorf("%s is taken by %s: stop it, or choose other addresses with --listen and --admin-listen", address, r.name())
		}
	}
	return err
}

// concerns reports whether -c names the file of a gateway, or nothing.
func (o *reachOptions) concerns(s *inspect.Status) bool {
	if o.file == "" {
		return true
	}
	full, err := filepath.Abs(o.file)
	return err == nil && (full == s.File || sameFile(full, s.File))
}

// adminURL is the URL of an admin address without a path.
func adminURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return "", usageError{fmt.Errorf("--url %s: must be the URL of the admin address without a path, such as http://127.0.0.1:9090", text)}
	}
	return u.Scheme + "://" + u.Host, nil
}

func headersOf(texts []string) (http.Header, error) {
	header := make(http.Header)
	for _, h := range texts {
		name, value, err := cutHeader(h)
		if err != nil {
			return nil, err
		}
		header.Add(name, value)
	}
	return header, nil
}

// cutHeader splits the value of a flag --header.
func cutHeader(text string) (name, value string, err error) {
	name, value, ok := strings.Cut(text, ":")
	if !ok {
		return "", "", usageError{errors.New("--header must be 'Name: value'; there is no colon in it")}
	}
	return strings.TrimSpace(name), strings.TrimSpace(value), nil
}

// ask sends a request and decodes the JSON of the answer into body. An answer that is not JSON is an error.
func (o *reachOptions) ask(ctx context.Context, r *running, method, path string, body any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, errTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, nil)
	if err != nil {
		return err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case errors.Is(err, syscall.ECONNREFUSED) && o.url != "":
			err = errors.New("nothing listens there: start the gateway, or give the admin address of the running one")
		}
		return fmt.Errorf("%s: %w", r.base, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("%s: %w", r.base, err)
	}
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: has no %s; --url must be the admin address of a gateway of this version", r.base, path)
	case resp.StatusCode == http.StatusUnauthorized && o.url != "":
		return fmt.Errorf("%s: %s: --header \"Authorization: Bearer TOKEN\"", r.base, strings.TrimSpace(string(data)))
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s: %s", r.base, strings.TrimSpace(string(data)))
	}
	if err := json.Unmarshal(data, body); err != nil {
		return fmt.Errorf("%s: answered %s, but not as a gateway does; --url must be its admin address", r.base, resp.Status)
	}
	return nil
}
