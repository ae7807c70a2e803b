package conformance

// impossible are checks that cannot pass by construction if the suite of one era runs in front of a fixture of the other. The list is exact: the
// test fails if a check on it passes, or if another check fails.
type impossible struct {
	suite    string // the suite's revision
	over     []string
	scenario string
	checks   []string
	why      string
}

// The transports to the fixture.
const (
	overHTTP  = "HTTP"
	overStdio = "stdio"
	overOwn   = "stdio, session: per-principal" // in place of overStdio with replicas
)

var (
	everywhere = []string{overHTTP, overStdio, overOwn}
	stdio      = []string{overStdio, overOwn}
	shared     = []string{overHTTP, overStdio}
)

var impossibles = []impossible{
	// The newest suite in front of a legacy server.
	{
		suite: "2026-07-28", over: everywhere, scenario: "input-required-result-basic-elicitation",
		checks: []string{"sep-2322-elicitation-incomplete"},
		why:    "the check wants the server's own key, user_name: a legacy server asks by a request, which has no key, so that the key is the gateway's",
	},
	{
		suite: "2026-07-28", over: shared, scenario: "input-required-result-basic-list-roots",
		checks: []string{"sep-2322-list-roots-incomplete"},
		why: "the session toward the fixture is shared by all clients, and a server takes the roots of a session as its sandbox for everybody: " +
			"a shared session never has a client's own",
	},
	{
		suite: "2026-07-28", over: shared, scenario: "input-required-result-multiple-input-requests",
		checks: []string{"sep-2322-multiple-inputs-incomplete"},
		why:    "one of the three questions is for roots, as above",
	},
	{
		suite: "2026-07-28", over: everywhere, scenario: "input-required-result-multi-round",
		checks: []string{"sep-2322-multi-round-r2"},
		why: "the fixture asks its second round of nobody: toward legacy clients its SDK calls a handler once more with the first answers, and what that " +
			"wants to ask further leaves as members of a complete result, which mean nothing in a legacy revision",
	},
	{
		suite: "2026-07-28", over: stdio, scenario: "server-stateless",
		checks: []string{"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"},
		why: "the tool refuses clients that did not declare sampling: over stdio a legacy server learns that once for all, and the session declares " +
			"what any client can answer, and answers for those that cannot when the question comes",
	},
	{
		suite: "2026-07-28", over: []string{overOwn}, scenario: "input-required-result-capability-check",
		checks: []string{"sep-2322-respect-client-capabilities"},
		why: "the tool asks for all that its session declares, as above: this client has no roots, the session has no roots of the gateway, and the tool " +
			"fails with that error",
	},
	// A legacy suite in front of a modern server.
	{
		suite: "2025-11-25", over: everywhere, scenario: "tools-call-elicitation",
		checks: []string{"tools-call-elicitation"},
		why:    imperative,
	},
	{
		suite: "2025-11-25", over: everywhere, scenario: "tools-call-sampling",
		checks: []string{"tools-call-sampling"},
		why:    imperative,
	},
	{
		suite: "2025-11-25", over: everywhere, scenario: "elicitation-sep1034-defaults",
		checks: []string{"elicitation-sep1034-general"},
		why:    imperative,
	},
	{
		suite: "2025-11-25", over: everywhere, scenario: "elicitation-sep1330-enums",
		checks: []string{"elicitation-sep1330-general"},
		why:    imperative,
	},
	{
		suite: "2025-11-25", over: everywhere, scenario: "server-sse-polling",
		checks: []string{"server-sse-retry-field"},
		why: "a warning: the tool lets its client come again, by a means that modern servers do not have; the gateway does not end the stream of a call, " +
			"and so has no time to name",
	},
}

const imperative = "the tool sends a request to its client, which the fixture's SDK refuses while it serves a modern request: it has to return the question, and this " +
	"tool does not; nothing of it leaves the fixture"

// reasons returns the reasons of the impossible checks of one cell, by scenario and check.
func reasons(suite, over string) map[[2]string]string {
	out := make(map[[2]string]string)
	for _, i := range impossibles {
		for _, o := range i.over {
			if i.suite != suite || o != over {
				continue
			}
			for _, check := range i.checks {
				out[[2]string{i.scenario, check}] = i.why
			}
		}
	}
	return out
}
