package wire

// Members of _meta that the specification reserves (2026-07-28, basic).
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaRelatedTask        = "io.modelcontextprotocol/related-task"
	MetaProgressToken      = "progressToken"
	// Members of _meta with the trace context of a request (SEP-414).
	MetaTraceparent = "traceparent"
	MetaTracestate  = "tracestate"
	MetaBaggage     = "baggage"
)

// Names of extensions that a peer may declare.
const (
	ExtensionTasks = "io.modelcontextprotocol/tasks"
	ExtensionApps  = "io.modelcontextprotocol/ui"
)

// RelaysExtension reports whether the gateway relays all of an extension: either its
// methods, as those of tasks, or members alone, as those of apps. Only such an
// extension may be declared to a peer: of any other it would answer the methods with
// "method not found".
func RelaysExtension(name string) bool { return name == ExtensionTasks || name == ExtensionApps }

// Headers of streamable HTTP.
const (
	HeaderSession     = "Mcp-Session-Id"
	HeaderVersion     = "Mcp-Protocol-Version"
	HeaderMethod      = "Mcp-Method"
	HeaderName        = "Mcp-Name"
	HeaderParamPrefix = "Mcp-Param-"
	HeaderLastEvent   = "Last-Event-Id"
)

// Level is a syslog severity. The zero Level is LevelNone.
type Level uint8

// Levels, from the most verbose to the most severe.
const (
	LevelNone Level = iota
	LevelDebug
	LevelInfo
	LevelNotice
	LevelWarning
	LevelError
	LevelCritical
	LevelAlert
	LevelEmergency
)

var levelNames = [...]string{"", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// String returns the level in the spelling of MCP, "" for LevelNone.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return ""
}

// ParseLevel returns the level with that name, and whether there is one.
func ParseLevel(name string) (Level, bool) {
	for i, n := range levelNames {
		if i > 0 && n == name {
			return Level(i), true
		}
	}
	return LevelNone, false
}
