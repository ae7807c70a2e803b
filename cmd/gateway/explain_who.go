package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/clientauth"
	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/policy"
)

// authentication is the result of the checks of the caller's credentials and profile, in the output of
// explain --json. Later versions add members, and never rename or remove one.
type authentication struct {
	Accepted bool             `json:"accepted"`
	Reason   string           `json:"reason,omitempty"` // as in mcp_gateway_auth_failures_total, or noEndpoint
	Message  string           `json:"message,omitempty"`
	Checks   []credentialTest `json:"checks,omitempty"`
}

// credentialTest is one part of the judgement of credentials.
type credentialTest struct {
	Name     string `json:"name"`
	Value    string `json:"value,omitempty"`
	Expected string `json:"expected,omitempty"`
	Result   string `json:"result"` // ok, wrong or unchecked
}

// noEndpoint is the reason for a principal that does not get the profile, as in mcp_gateway_refused_requests_total.
const noEndpoint = "endpoint"

// maxTokenFile bounds a file with a token.
const maxTokenFile = 64 << 10

// who sets the principal of the question, nil if the credentials have none. It returns the
// judgement of the credentials, nil without credentials that could be judged.
func (o *explainOptions) who(cmd *cobra.Command, cfg *config.Config, q *inspect.Question) (*authentication, error) {
	if o.token != "" {
		return o.examine(cmd, cfg, q)
	}
	o.warnWithoutCredentials(cmd, cfg)
	var err error
	var refused string
	if q.Principal, refused, err = o.principalOr(cmd, cfg); err != nil {
		return nil, err
	}
	if expires := q.Principal.Expires; !expires.IsZero() && !time.Now().Before(expires) {
		at := expires.UTC().Format(time.RFC3339)
		return &authentication{Reason: "expired_key", Message: "the API key has expired", Checks: []credentialTest{
			{"expires", at, "after " + time.Now().UTC().Format(time.RFC3339), string(auth.CheckWrong)},
		}}, nil
	}
	if refused != "" {
		return &authentication{Reason: noEndpoint, Message: refused}, nil
	}
	return nil, nil
}

// examine judges the token or API key of --token.
func (o *explainOptions) examine(cmd *cobra.Command, cfg *config.Config, q *inspect.Question) (*authentication, error) {
	if o.as != "" {
		return nil, usageError{errors.New("--token and --as both name the caller: remove one")}
	}
	text, err := readCredentials(cmd.InOrStdin(), o.token)
	if err != nil {
		return nil, err
	}
	ctx, cancel := within(cmd.Context(), o.timeout)
	defer cancel()
	x, err := clientauth.Examine(ctx, cfg, text, o.profile)
	if err != nil {
		return nil, err
	}
	a := &authentication{Accepted: x.Reason == "", Reason: x.Reason, Message: x.Message}
	for _, c := range x.Checks {
		a.Checks = append(a.Checks, credentialTest{c.Name, c.Value, c.Expected, string(c.Result)})
	}
	if x.Principal != nil {
		var remark, refused string
		q.Principal, remark, refused = clientauth.InProfile(cfg, x.Principal, x.Profiles, o.profile)
		warn(cmd, remark)
		if refused != "" && a.Accepted {
			a.Accepted, a.Reason, a.Message = false, noEndpoint, refused
		}
	}
	return a, nil
}

// readCredentials returns the value of --token: a text, or the content of a file.
func readCredentials(stdin io.Reader, flag string) (string, error) {
	text := flag
	if info, err := os.Stat(flag); err == nil && info.Mode().IsRegular() {
		return "", usageError{fmt.Errorf("--token: %s is a file; write @%[1]s for the token in it", flag)}
	}
	if name, isFile := strings.CutPrefix(flag, "@"); isFile || flag == "-" {
		in := stdin
		if isFile {
			f, err := os.Open(name)
			if err != nil {
				return "", fmt.Errorf("--token: %w", err)
			}
			defer f.Close()
			in = f
		}
		data, err := io.ReadAll(io.LimitReader(in, maxTokenFile+1))
		switch {
		case err != nil:
			return "", fmt.Errorf("--token: %w", err)
		case len(data) > maxTokenFile:
			return "", fmt.Errorf("--token: more than %d bytes are no token", maxTokenFile)
		}
		text = string(data)
	}
	text = strings.TrimSpace(text)
	if scheme, rest, ok := strings.Cut(text, " "); ok && strings.EqualFold(scheme, "Bearer") {
		text = strings.TrimSpace(rest)
	}
	switch {
	case text == "":
		return "", usageError{errors.New("--token: there is no token in it")}
	case strings.ContainsAny(text, " \t\r\n"):
		return "", usageError{errors.New("--token: a token is one word; write @FILE for a file with a token")}
	}
	return text, nil
}

// print prints the judgement of the credentials.
func (a *authentication) print(out io.Writer, s console.Style) error {
	unchecked := false
	var rows [][]string
	for _, c := range a.Checks {
		result := s.Good(c.Result)
		switch auth.CheckResult(c.Result) {
		case auth.CheckWrong:
			result = s.Bad(c.Result)
		case auth.CheckUnchecked:
			result, unchecked = s.Warn(c.Result), true
		}
		rows = append(rows, []string{c.Name, result, console.Line(c.Value), console.Line(c.Expected)})
	}
	switch {
	case !a.Accepted:
		folded(out, "The gateway %s these credentials: %s (%s).\n", s.Bad("refuses"), a.Message, a.Reason)
	case unchecked:
		but := "."
		if a.Message != "" {
			but = "; " + a.Message + "."
		}
		folded(out, "The gateway %s these credentials, if what is unchecked here is right%s\n", s.Warn("accepts"), but)
	default:
		folded(out, "The gateway %s these credentials.\n", s.Good("accepts"))
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	return console.FoldedTable(out, s, console.Columns(out), []string{"CHECK", "RESULT", "VALUE", "EXPECTED"}, rows)
}

// printBefore prints the judgement before the answer for the principal. It prints nothing for nil.
func (a *authentication) printBefore(out io.Writer, s console.Style) error {
	if a == nil {
		return nil
	}
	if err := a.print(out, s); err != nil {
		return err
	}
	if len(a.Checks) > 0 {
		fmt.Fprintln(out)
	}
	if !a.Accepted {
		fmt.Fprint(out, "If they were accepted:\n")
	}
	return nil
}

// printRefused prints the answer for credentials without a principal.
func (o *explainOptions) printRefused(out io.Writer, q *inspect.Question, a *authentication) error {
	if o.json {
		return printJSON(out, explained{ExplanationReport: &inspect.ExplanationReport{Item: q.Public, Effect: policy.Deny.String(), Steps: []inspect.StepReport{}}, Authentication: a, NeedsRestart: o.running.needsRestart})
	}
	return a.print(out, console.StyleOf(out, lookupEnv))
}
