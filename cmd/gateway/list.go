package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/wire"
)

// listOptions are the flags of `gateway list`.
type listOptions struct {
	visitOptions
	json    bool
	timeout time.Duration
}

func newList() *cobra.Command {
	var o listOptions
	kinds := []string{"tools", "resources", "prompts"}
	cmd := &cobra.Command{
		Use:   "list [tools|resources|prompts]",
		Short: "Print what a principal sees",
		Long: "list prints the tools, resources and prompts that clients see, with their public\n" +
			"names. It starts the configured upstreams, or asks the server at --url. Standard\n" +
			"error names upstreams that are down.",
		Example:   "  gateway list\n  gateway list tools --as alice,group=dev\n  gateway list --profile coding\n  gateway list --url http://127.0.0.1:8080/mcp",
		ValidArgs: kinds,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(kinds, args[0]) {
				return usageError{fmt.Errorf("list takes one of tools, resources and prompts, or nothing for all, not %q%s", strings.Join(args, " "), didYouMean(args[0], kinds))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	timeoutFlag(cmd, &o.timeout)
	return cmd
}

// seen is the output of list, as JSON with --json. Later versions add members, and never rename or remove
// one.
type seen struct {
	Items       []seenItem    `json:"items"`
	Unavailable []unavailable `json:"unavailable"` // upstreams that are missing

	// note says why nothing is listed, "" if it is not known.
	note string
}

type seenItem struct {
	Kind        string `json:"kind"` // tool, resource, template or prompt
	Name        string `json:"name"` // the public name or URI
	Upstream    string `json:"upstream,omitempty"`
	Native      string `json:"native,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
}

// isOf reports whether an item is one of an upstream. Items of the gateway at --url have the prefix of their upstream, unless its
// configuration says otherwise.
func (it seenItem) isOf(upstream string) bool {
	if it.Upstream != "" {
		return it.Upstream == upstream
	}
	rest, has := strings.CutPrefix(it.Name, upstream)
	return has && rest != "" && !isNameByte(rest[0])
}

// isNameByte reports whether a byte can be in the name of an upstream.
func isNameByte(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' }

type unavailable struct {
	Upstream string `json:"upstream"`
	Reason   string `json:"reason"`
}

func (o *listOptions) run(cmd *cobra.Command, args []string) error {
	cfg, source, who, err := o.read(cmd)
	if err != nil {
		return err
	}
	kinds := []call.Kind{call.Tool, call.Resource, call.Template, call.Prompt}
	if len(args) > 0 {
		kinds = map[string][]call.Kind{"tools": {call.Tool}, "resources": {call.Resource, call.Template}, "prompts": {call.Prompt}}[args[0]]
	}
	o.warnWithoutCredentials(cmd, cfg)
	keepUpstreams(cfg, who, "")
	got, nobody := seen{Items: []seenItem{}, Unavailable: []unavailable{}}, false
	err = visitStarted(cmd, cfg, source, o.timeout, func(ctx context.Context, v *gateway.InProcess, _ *console.Screen) error {
		for _, kind := range kinds {
			for _, e := range v.Table(who.Profile).View(who, nil).Entries(kind) {
				got.Items = append(got.Items, o.item(e))
			}
		}
		nobody = o.missing(ctx, v, cfg, v.Table(who.Profile).View(who, nil), &got)
		if len(got.Items) == 0 && (o.url == "" || len(got.Unavailable) == 0) {
			got.note = o.nothing(v, v.Table(who.Profile).Counts(), kinds, who.Profile)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := o.print(cmd, cfg, kinds, &got); err != nil {
		return err
	}
	if nobody {
		return errReported
	}
	return nil
}

// nothing says why nothing is listed, "" if that is not known. inProfile is how many items the profile selects.
func (o *listOptions) nothing(v *gateway.InProcess, inProfile [call.Kinds]int, kinds []call.Kind, profile string) string {
	if o.url != "" {
		u := v.Upstreams()[0]
		if len(o.headers) == 0 || u.Revision == "" || u.Items != [call.Kinds]int{} {
			return ""
		}
		return "the server lists nothing for these credentials; if it is a gateway, its policy may allow them nothing: there, gateway check finds a policy without rules that allow"
	}
	hidden, selected := countItems(v, kinds), 0
	for _, kind := range kinds {
		selected += inProfile[kind]
	}
	switch {
	case hidden == 0:
		return ""
	case selected == 0:
		return fmt.Sprintf("the upstreams have %s, and the profile %s selects none: change profiles.%[2]s", console.Count(hidden, "item"), endpoint.NameOf(profile))
	}
	return fmt.Sprintf("the upstreams have %[1]s, and this principal sees none: gateway check%[2]s finds a policy without rules that allow, gateway explain NAME%[2]s says which rule hides an item",
		console.Count(hidden, "item"), advice.ConfigFlag())
}

// countItems returns how many items of these kinds the upstreams have.
func countItems(v *gateway.InProcess, kinds []call.Kind) int {
	n := 0
	for _, u := range v.Upstreams() {
		for _, kind := range kinds {
			n += u.Items[kind]
		}
	}
	return n
}

func (o *listOptions) item(e *catalog.Entry) seenItem {
	v := wire.ValueOf(e.Raw)
	it := seenItem{
		Kind: e.Kind.String(), Name: e.Public, Upstream: e.Upstream(), Native: e.Native,
		Title: v.Get("title").Str(), Description: v.Get("description").Str(),
	}
	if it.Title == "" && (e.Kind == call.Resource || e.Kind == call.Template) {
		it.Title = v.Get("name").Str()
	}
	if o.url != "" {
		it.Name, it.Upstream, it.Native = e.Native, "", "" // a server at --url is called by its native names
	}
	return it
}

// missing records the upstreams that are missing in the lists, and reports whether no upstream was
// reached.
func (o *listOptions) missing(ctx context.Context, v *gateway.InProcess, cfg *config.Config, view *catalog.View, got *seen) bool {
	advice := make(map[string]string)
	up := 0
	for _, u := range v.Upstreams() {
		advice[u.Name] = o.reason(u.Reason)
		if u.Revision != "" {
			up++
		}
	}
	for _, u := range view.Unavailable() {
		reason := cmp.Or(advice[u.Upstream], u.Reason)
		if u.Starting {
			reason = unfinishedReason(o.timeout, advice[u.Upstream], isRemote(cfg, u.Upstream))
		}
		got.Unavailable = append(got.Unavailable, unavailable{u.Upstream, reason})
	}
	if o.url != "" && up > 0 {
		timed, cancel := within(ctx, o.timeout)
		defer cancel()
		behind, all := unavailableBehind(timed, v)
		if got.Unavailable = append(got.Unavailable, behind...); all {
			up = 0
		}
	}
	return up == 0 && len(got.Unavailable) > 0
}

// unavailableBehind asks the server at --url, which may be a gateway, for the upstreams missing in its lists. all reports
// whether the lists are an error because of them.
func unavailableBehind(ctx context.Context, v *gateway.InProcess) (out []unavailable, all bool) {
	res, err := v.CallUpstream(ctx, v.Upstreams()[0].Name, &call.Call{
		ID: requestid.New(), Method: wire.MethodToolsList, Principal: call.Anonymous, Client: shellClient(nil), Back: silent{},
	})
	add := func(u wire.Value) { out = append(out, unavailable{u.Get("upstream").Str(), u.Get("reason").Str()}) }
	missing := wire.ValueOf(res.Raw).Get("_meta").Get(catalog.MetaUnavailable)
	if err != nil {
		rpc, _ := errors.AsType[*wire.Error](err)
		if rpc == nil || rpc.Raw == nil {
			return nil, false // no answer of the server
		}
		data := wire.ValueOf(rpc.Data)
		if missing = data.Get("unavailable"); !missing.Exists() && data.Get("upstream").Str() != "" {
			add(data)
		}
	}
	for u := range missing.Elements() {
		add(u)
	}
	return out, err != nil
}

// print prints the lists, and on standard error the missing upstreams.
func (o *listOptions) print(cmd *cobra.Command, cfg *config.Config, kinds []call.Kind, got *seen) error {
	out, errs := cmd.OutOrStdout(), cmd.ErrOrStderr()
	warn := console.StyleOf(errs, lookupEnv)
	defer func() {
		for _, u := range got.Unavailable {
			what := console.Line(u.Upstream) + " is missing"
			switch {
			case o.url != "" && u.Upstream == urlUpstream:
				what = "the server cannot be used"
			case slices.ContainsFunc(got.Items, func(it seenItem) bool { return it.isOf(u.Upstream) }):
				what = "the items of " + console.Line(u.Upstream) + " may be out of date"
			}
			folded(errs, "%s: %s: %s\n", warn.Warn("warning"), what, console.Line(u.Reason))
		}
	}()
	if o.json {
		return printJSON(out, got)
	}
	if len(got.Items) == 0 {
		if got.note != "" {
			folded(errs, "note: %s\n", got.note)
		}
		_, err := fmt.Fprintln(out, "Nothing is listed.")
		return err
	}
	s, columns := console.StyleOf(out, lookupEnv), console.Columns(out)
	first := true
	for _, kind := range kinds {
		rows := rowsOf(got.Items, kind, s, o.url != "")
		if len(rows) == 0 {
			continue
		}
		head, rows := headOf(kind, rows, columns, o.url != "")
		if err := errors.Join(gap(out, first), console.Table(out, s, columns, head, rows)); err != nil {
			return err
		}
		first = false
	}
	return nil
}

// headOf returns the headings for rows, and the rows, without the upstreams if they leave too little room for descriptions: most names begin with
// the upstream.
func headOf(kind call.Kind, rows [][]string, columns int, short bool) ([]string, [][]string) {
	head := []string{strings.ToUpper(kind.Plural()), "UPSTREAM", "DESCRIPTION"}
	if short {
		head = []string{head[0], head[2]}
	}
	return console.Fit(columns, head, rows, "UPSTREAM")
}

func gap(out io.Writer, first bool) error {
	if first {
		return nil
	}
	_, err := fmt.Fprintln(out)
	return err
}

func rowsOf(items []seenItem, kind call.Kind, s console.Style, short bool) [][]string {
	var rows [][]string
	for _, it := range items {
		if it.Kind != kind.String() {
			continue
		}
		about := console.Line(it.Description)
		if title := console.Line(it.Title); title != "" && about != "" {
			about = title + ": " + about
		} else if about == "" {
			about = title
		}
		row := []string{console.Line(it.Name), s.Dim(it.Upstream), console.Cut(about, maxAbout)}
		if short {
			row = []string{row[0], row[2]}
		}
		rows = append(rows, row)
	}
	return rows
}

// maxAbout bounds a description without a terminal.
const maxAbout = 160
