package wire

// Methods that the gateway treats in a way of their own. All others are
// relayed as they are.
const (
	MethodInitialize         = "initialize"
	MethodDiscover           = "server/discover"
	MethodPing               = "ping"
	MethodSetLevel           = "logging/setLevel"
	MethodToolsList          = "tools/list"
	MethodToolsCall          = "tools/call"
	MethodPromptsList        = "prompts/list"
	MethodPromptsGet         = "prompts/get"
	MethodResourcesList      = "resources/list"
	MethodTemplatesList      = "resources/templates/list"
	MethodResourcesRead      = "resources/read"
	MethodResourcesMetadata  = "resources/metadata"
	MethodResourcesSubscribe = "resources/subscribe"
	MethodResourcesUnsub     = "resources/unsubscribe"
	MethodComplete           = "completion/complete"
	MethodListen             = "subscriptions/listen"

	MethodTasksGet    = "tasks/get"
	MethodTasksCancel = "tasks/cancel"
	MethodTasksResult = "tasks/result" // 2025-11-25 only
	MethodTasksList   = "tasks/list"   // 2025-11-25 only
	MethodTasksUpdate = "tasks/update" // the extension of 2026-07-28 only

	MethodElicit    = "elicitation/create"
	MethodSample    = "sampling/createMessage"
	MethodRootsList = "roots/list"

	NoteInitialized      = "notifications/initialized"
	NoteCancelled        = "notifications/cancelled"
	NoteProgress         = "notifications/progress"
	NoteMessage          = "notifications/message"
	NoteToolsChanged     = "notifications/tools/list_changed"
	NotePromptsChanged   = "notifications/prompts/list_changed"
	NoteResourcesChanged = "notifications/resources/list_changed"
	NoteResourceUpdated  = "notifications/resources/updated"
	NoteRootsChanged     = "notifications/roots/list_changed"
	NoteAcknowledged     = "notifications/subscriptions/acknowledged"
	NoteElicitComplete   = "notifications/elicitation/complete"
	NoteTaskStatus       = "notifications/tasks/status" // 2025-11-25
	NoteTasks            = "notifications/tasks"        // the extension of 2026-07-28
)

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

// NameMember returns the member of params that the Mcp-Name header of a
// request mirrors, "" when the method has none (2026-07-28,
// basic/transports/streamable-http, "Standard Request Headers").
func NameMember(method string) string {
	switch method {
	case MethodToolsCall, MethodPromptsGet:
		return "name"
	case MethodResourcesRead, MethodResourcesMetadata:
		return "uri"
	case MethodTasksGet, MethodTasksUpdate, MethodTasksCancel:
		return "taskId"
	default:
		return ""
	}
}

// NameRequired reports whether a modern request for method must carry the
// Mcp-Name header. For resources/metadata, a draft, it is optional.
func NameRequired(method string) bool {
	return method != MethodResourcesMetadata && NameMember(method) != ""
}

// Level is a syslog severity as MCP spells it. The zero Level is "none".
type Level uint8

// Levels, from the most verbose to the gravest.
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

// String returns the level as MCP spells it, "" for LevelNone.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return ""
}

// ParseLevel returns the level of that name and whether there is one.
func ParseLevel(name string) (Level, bool) {
	for i, n := range levelNames {
		if i > 0 && n == name {
			return Level(i), true
		}
	}
	return LevelNone, false
}
