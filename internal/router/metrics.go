package router

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/call"
	"mcpgateway/internal/downlevel"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/results"
	"mcpgateway/internal/wire"
)

// Metrics count requests and their outcomes. The label method takes the methods of the protocol
// and "other". The label upstream takes configured names, and "" for requests that the gateway
// answers itself.
type Metrics struct {
	requests      *prometheus.CounterVec
	durations     *prometheus.HistogramVec
	decisions     *prometheus.CounterVec
	downlevels    *prometheus.CounterVec
	asks          *prometheus.CounterVec
	bridged       *prometheus.CounterVec
	limited       *prometheus.CounterVec
	violations    *prometheus.CounterVec
	sanitized     *prometheus.CounterVec
	invalidInputs *prometheus.CounterVec
	shortened     *prometheus.CounterVec
	scaled        *prometheus.CounterVec

	// Metrics of the path of every call, looked up once.
	requestCounters   memo[requestLabels, prometheus.Counter]
	durationObservers memo[durationLabels, *durationObserver]
	decisionCounters  memo[decisionLabels, prometheus.Counter]
}

// Labels of the metrics of requests, durations and decisions.
type (
	requestLabels  struct{ method, upstream, outcome string }
	durationLabels struct{ method, upstream string }
	decisionLabels struct{ effect, rule string }
)

// NewMetrics returns metrics that are not registered yet.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		requests: counter("mcp_gateway_requests_total",
			"Requests of clients, by outcome.", "method", "upstream", "outcome"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mcp_gateway_request_duration_seconds",
			Help:    "Time from a client's request to its answer, without requests that were refused.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		}, []string{"method", "upstream"}),
		decisions: counter("mcp_gateway_policy_decisions_total",
			"Decisions of policy on calls, by effect and deciding rule.", "effect", "rule"),
		downlevels: counter("mcp_gateway_downlevelled_total",
			"Parts of answers that a client's revision does not know and that were replaced or left out.", "kind"),
		asks: counter("mcp_gateway_asks_total",
			"Questions to clients, of upstreams and for confirmation, by outcome.", "kind", "outcome"),
		bridged: counter("mcp_gateway_bridged_calls_total",
			"Calls between a client and an upstream of different eras.", "client_era", "upstream_era"),
		limited: counter("mcp_gateway_rate_limited_total",
			"Calls that went over a limit, by the rule that has it.", "rule"),
		violations: counter("mcp_gateway_nonconformance_total",
			"Violations of the specification by upstreams, by kind.", "upstream", "kind"),
		sanitized: counter("mcp_gateway_sanitized_total",
			"Parts that were removed from the text of upstreams.", "upstream", "kind"),
		invalidInputs: counter("mcp_gateway_invalid_inputs_total",
			"Tool calls that were not sent because their arguments do not fit.", "upstream"),
		shortened: counter("mcp_gateway_results_shortened_total",
			"Results of tools over max_result, by outcome.", "profile", "outcome"),
		scaled: counter("mcp_gateway_images_scaled_total",
			"Images in results of tools that were made smaller.", "profile"),
	}
	m.requestCounters.find = func(l requestLabels) prometheus.Counter {
		return m.requests.WithLabelValues(l.method, l.upstream, l.outcome)
	}
	m.durationObservers.find = func(l durationLabels) *durationObserver {
		return &durationObserver{Observer: m.durations.WithLabelValues(l.method, l.upstream)}
	}
	m.decisionCounters.find = func(l decisionLabels) prometheus.Counter { return m.decisions.WithLabelValues(l.effect, l.rule) }
	return m
}

// Collectors returns the metrics to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.requests, m.durations, m.decisions, m.downlevels, m.asks, m.bridged, m.limited, m.violations, m.sanitized, m.invalidInputs,
		m.shortened, m.scaled,
	}
}

// durationObserver observes durations, and keeps the longest one: a histogram does not have it.
type durationObserver struct {
	prometheus.Observer
	slowest atomic.Int64 // in nanoseconds
}

// noteSlowest is called before Observe, so that no observed duration is longer than the slowest.
func (o *durationObserver) noteSlowest(d time.Duration) {
	for {
		slowest := o.slowest.Load()
		if int64(d) <= slowest || o.slowest.CompareAndSwap(slowest, int64(d)) {
			return
		}
	}
}

// observe adds the duration of a call to the histogram, with the trace as an exemplar if it is exported.
func (m *Metrics) observe(labels durationLabels, duration time.Duration, c *call.Call, exported bool) {
	observer := m.durationObservers.get(labels)
	observer.noteSlowest(duration)
	if with, ok := observer.Observer.(prometheus.ExemplarObserver); ok && exported {
		with.ObserveWithExemplar(duration.Seconds(), prometheus.Labels{"trace_id": c.Trace.ID()})
	} else {
		observer.Observe(duration.Seconds())
	}
}

// Slowest returns the longest time that a call of an upstream took, 0 without calls.
func (m *Metrics) Slowest(upstream string) (slowest time.Duration) {
	for labels, o := range m.durationObservers.values() {
		if labels.upstream == upstream && wire.MethodOf(labels.method).Kind == wire.KindCall {
			slowest = max(slowest, time.Duration(o.slowest.Load()))
		}
	}
	return slowest
}

// countDownlevel counts what was replaced for a client's revision.
func (m *Metrics) countDownlevel(t downlevel.Counts) {
	for kind, n := range t {
		if n > 0 {
			m.downlevels.WithLabelValues(downlevel.Kind(kind).String()).Add(float64(n))
		}
	}
}

// countBridged counts a call if the upstream that answered is of another era than the client.
func (m *Metrics) countBridged(client, upstream wire.Era) {
	if client != upstream && upstream != wire.EraUnknown {
		m.bridged.WithLabelValues(client.String(), upstream.String()).Inc()
	}
}

// methodLabel is how metrics and the audit name a method: the name of one that a
// router handles, else "other", so that no client can invent one.
func methodLabel(method string) string {
	switch m := wire.MethodOf(method); m.Kind {
	case wire.KindDiscover, wire.KindList, wire.KindCall, wire.KindMetadata, wire.KindComplete, wire.KindSubscribe, wire.KindTask:
		return m.Name
	default:
		return "other"
	}
}

// labelOf is methodLabel for a call. The front end makes a server/discover of initialize.
func labelOf(c *call.Call) string {
	if c.Method == wire.MethodDiscover && c.Client.Era() == wire.EraLegacy {
		return wire.MethodInitialize
	}
	return methodLabel(c.Method)
}

// The outcomes of a request.
const (
	outcomeOK          = "ok"
	outcomeError       = "error"       // the upstream, or the gateway, answered with an error
	outcomeRefused     = "refused"     // policy refuses the call, there is no such item, or the request is wrong
	outcomeUnavailable = "unavailable" // the upstream could not be reached or did not answer
	outcomeCancelled   = "cancelled"
	outcomeLimited     = "limited"      // a limit of a rule is reached
	outcomeToolError   = "tool_error"   // the result of the tool says that it failed
	outcomeURLRequired = "url_required" // the user has to open a page first (2025-11-25, -32042)
	outcomeUnconfirmed = "unconfirmed"  // a rule has the user confirm the call, and the user did not
)

// isRefusal reports whether a call with this outcome was refused by a rule, or for lack of one. The log and the audit
// then have the groups and scopes of the principal, on which rules depend.
func isRefusal(outcome string) bool {
	switch outcome {
	case outcomeRefused, outcomeLimited, outcomeUnconfirmed:
		return true
	}
	return false
}

func outcomeOf(err error) string {
	if err == nil {
		return outcomeOK
	}
	rpc, ours := errors.AsType[*wire.Error](err)
	ours = ours && rpc.Raw == nil
	refused, ok := errors.AsType[*call.Refused](err)
	switch {
	case ok && refused.RetryAfter > 0:
		return outcomeLimited
	case errors.Is(err, context.Canceled):
		return outcomeCancelled
	case rpc != nil && rpc.Code == wire.CodeURLElicitation:
		return outcomeURLRequired
	case ours && rpc.Code == wire.CodeInternal:
		return outcomeUnavailable
	case ours && (rpc.Code == wire.CodeInvalidParams || rpc.Code == wire.CodeResourceNotFound):
		return outcomeRefused
	default:
		return outcomeError
	}
}

// logFields are the fields of the log line of a call beside its caller and its outcome. None of
// them is an argument: a client may have written any part of a URI that no list has.
type logFields struct {
	upstream, item, rule string
	lister               string         // the upstream that has the item, whether or not it was asked
	decided              string         // the outcome if a stage knows it, "" for what the answer says
	reason               string         // why the call failed, "" for what its error says
	denial               denial         // by policy, in place of a reason
	outcome              string         // "" if nobody has asked for it yet
	stopped              bool           // the gateway ended the call before its answer, and answers it with an error
	own                  bool           // the call is one of the gateway's own items
	used                 []results.Item // whose results went into that of an inner call
	asks                 []string       // the questions of the upstream that were not answered, see unansweredAsks
	violations           []string       // the kinds of violations of the specification in what the upstream answered
}

// outcomeOf returns the outcome of the call, which it remembers: a result may be long.
func (l *logFields) outcomeOf(c *call.Call, res wire.Raw, err error) string {
	switch {
	case l.outcome != "":
	case l.decided != "":
		l.outcome = l.decided
	case err != nil:
		l.outcome = outcomeOf(err)
	default:
		l.outcome = outcomeOfResult(c.Method, res)
	}
	return l.outcome
}

// unaudited takes the call from its upstream, which was not asked, if the audit cannot be written.
func (l *logFields) unaudited(err error) {
	if errors.Is(err, errUnaudited) {
		l.upstream = ""
	}
}

// named returns the upstream for the line of the log.
func (l *logFields) named() string { return cmp.Or(l.upstream, l.lister) }

// decision keeps the last decision about a call.
func (l *logFields) decision(it *auditedItem, d *policy.Decision) {
	l.item, l.lister, l.rule = "", it.upstream, d.Rule
	if it.listed || it.kind == call.Tool || it.kind == call.Prompt {
		l.item = plaintext.Clip(it.public, maxAuditItem)
	}
}

// maxFields is the number of fields of the log line of a call.
const maxFields = 17

// milliseconds is a duration as the log and the audit have it.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// observe counts and logs a call that has ended. res is its result if err is nil.
func (r *Router) observe(c *call.Call, log *logFields, duration time.Duration, exported bool, res wire.Raw, err error) {
	method := labelOf(c)
	outcome := cmp.Or(log.decided, outcomeOf(err))
	r.metrics.requestCounters.get(requestLabels{method, log.upstream, outcome}).Inc()
	if !isRefusal(outcome) { // the time of a refusal says nothing about the upstream, and a flood of them would hide its own
		r.metrics.observe(durationLabels{method, log.upstream}, duration, c, exported)
	}

	if r.onFailed != nil && log.upstream != "" && (outcome == outcomeError || outcome == outcomeUnavailable) {
		r.onFailed(FailedCall{log.upstream, method, log.item, c.ID, r.reasonOf(outcome, c, log, err)})
	}
	entry := r.log.Check(zapcore.InfoLevel, "call")
	if entry == nil {
		return
	}
	room := fieldRoom.Get().(*[maxFields]zap.Field)
	fields := append(room[:0],
		zap.String("request", c.ID),
		zap.String("principal", c.Principal.Subject),
	)
	if c.Principal.KeyID != "" {
		fields = append(fields, zap.String("key", c.Principal.KeyID))
	}
	fields = append(fields, zap.String("method", method))
	if c.Principal.Profile != "" {
		fields = append(fields, zap.String("profile", c.Principal.Profile))
	}
	if upstream := log.named(); upstream != "" {
		fields = append(fields, zap.String("upstream", upstream))
	}
	if log.item != "" {
		fields = append(fields, zap.String("item", log.item))
	}
	if log.rule != "" {
		fields = append(fields, zap.String("rule", log.rule))
	}
	outcome = log.outcomeOf(c, res, err) // the metrics do not distinguish results
	fields = append(fields, zap.String("outcome", outcome))
	if reason := r.reasonOf(outcome, c, log, err); reason != "" {
		fields = append(fields, zap.String("reason", reason))
	}
	if isRefusal(outcome) {
		for _, f := range []struct {
			name string
			list []string
		}{{"groups", c.Principal.Groups}, {"scopes", c.Principal.Scopes}} {
			if len(f.list) > 0 {
				fields = append(fields, zap.Strings(f.name, plaintext.ClipList(f.list)))
			}
		}
	}
	if len(log.asks) > 0 {
		fields = append(fields, zap.Strings("asks", log.asks))
	}
	if len(log.violations) > 0 {
		fields = append(fields, zap.Strings("violations", log.violations))
	}
	if to := c.Trace.Replica(); to != "" {
		fields = append(fields, zap.String("replica", to))
	}
	if id := c.Trace.ID(); id != "" {
		fields = append(fields, zap.String("trace_id", id))
	}
	entry.Write(append(fields, zap.Float64("duration_ms", milliseconds(duration)))...)
	clear(room[:])
	fieldRoom.Put(room)
}

// observeOwn logs a call of one of the gateway's own items. The calls that it made are counted.
func (r *Router) observeOwn(c *call.Call, log *logFields, duration time.Duration, err error) {
	r.log.Debug("call of an own tool", zap.String("request", c.ID), zap.String("principal", c.Principal.Subject),
		ratelog.Profile(c.Principal.Profile), zap.String("item", log.item), zap.String("outcome", outcomeOf(err)), zap.Float64("duration_ms", milliseconds(duration)))
}

// fieldRoom holds memory for the fields of log lines: no core of the logger keeps them.
var fieldRoom = sync.Pool{New: func() any { return new([maxFields]zap.Field) }}
