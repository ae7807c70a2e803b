package wire

import "slices"

// Methods of requests and notifications that the gateway treats in a way of
// their own. All others are relayed as they are.
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
	MethodTasksResult = "tasks/result"
	MethodTasksList   = "tasks/list"
	MethodTasksUpdate = "tasks/update"

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
	NoteTaskStatus       = "notifications/tasks/status" // of the tasks of 2025-11-25
	NoteTasks            = "notifications/tasks"        // of the tasks extension of 2026-07-28
)

// methods is the table of methods. It is the only place that knows facts about a
// method by its name; everything else looks the method up with [MethodOf].
var methods = []Method{
	{Name: MethodInitialize, Kind: KindLifecycle, Until: Rev20260728},
	{Name: MethodDiscover, Kind: KindDiscover, Cacheable: true, Since: Rev20260728},
	{Name: MethodPing, Kind: KindLifecycle, Until: Rev20260728},
	{Name: MethodSetLevel, Kind: KindLifecycle, Capability: "logging", Until: Rev20260728},

	{Name: MethodToolsList, Kind: KindList, Item: ItemTool, Capability: "tools", ListMember: "tools", Cacheable: true},
	{Name: MethodPromptsList, Kind: KindList, Item: ItemPrompt, Capability: "prompts", ListMember: "prompts", Cacheable: true},
	{Name: MethodResourcesList, Kind: KindList, Item: ItemResource, Capability: "resources", ListMember: "resources", Cacheable: true,
		Member: "uri", MemberOptional: true, Shape: ShapeResources}, // the member is that of SEP-2093
	{Name: MethodTemplatesList, Kind: KindList, Item: ItemTemplate, Capability: "resources", ListMember: "resourceTemplates", Cacheable: true},

	{Name: MethodToolsCall, Kind: KindCall, Item: ItemTool, Member: "name", NameHeader: HeaderRequired, HasArguments: true,
		Rounds: true, Shape: ShapeToolResult, Capability: "tools"},
	{Name: MethodPromptsGet, Kind: KindCall, Item: ItemPrompt, Member: "name", NameHeader: HeaderRequired, HasArguments: true,
		Rounds: true, Shape: ShapePrompt, Capability: "prompts"},
	{Name: MethodResourcesRead, Kind: KindCall, Item: ItemResource, Member: "uri", NameHeader: HeaderRequired,
		Rounds: true, Shape: ShapeContents, Cacheable: true, Capability: "resources"},
	{Name: MethodResourcesMetadata, Kind: KindMetadata, Item: ItemResource, Member: "uri", NameHeader: HeaderOptional,
		Shape: ShapeResources, Cacheable: true, Capability: "resources"},
	{Name: MethodComplete, Kind: KindComplete, Item: ItemReferred, Member: "ref", Open: true, Shape: ShapeCompletion, Capability: "completions"},

	{Name: MethodResourcesSubscribe, Kind: KindSubscribe, Item: ItemResource, Member: "uri", Capability: "resources", Until: Rev20260728},
	{Name: MethodResourcesUnsub, Kind: KindSubscribe, Item: ItemResource, Member: "uri", Capability: "resources", Until: Rev20260728},
	{Name: MethodListen, Kind: KindListen, Since: Rev20260728},

	{Name: MethodTasksGet, Kind: KindTask, Member: "taskId", NameHeader: HeaderRequired, Open: true, Shape: ShapeTask, Since: Rev20251125},
	{Name: MethodTasksCancel, Kind: KindTask, Member: "taskId", NameHeader: HeaderRequired, Open: true, Since: Rev20251125},
	{Name: MethodTasksUpdate, Kind: KindTask, Member: "taskId", NameHeader: HeaderRequired, Open: true, Since: Rev20260728},
	{Name: MethodTasksResult, Kind: KindTask, Member: "taskId", Open: true, Shape: ShapeToolResult, Since: Rev20251125, Until: Rev20260728},
	{Name: MethodTasksList, Kind: KindTask, Open: true, Since: Rev20251125, Until: Rev20260728},

	{Name: MethodElicit, Kind: KindAsk, Capability: "elicitation", Shape: ShapeElicitation, Since: Rev20250618},
	{Name: MethodSample, Kind: KindAsk, Capability: "sampling", Shape: ShapeSampling},
	{Name: MethodRootsList, Kind: KindAsk, Capability: "roots"},

	{Name: NoteInitialized, Kind: KindNotification, Until: Rev20260728},
	{Name: NoteCancelled, Kind: KindNotification, Scope: ScopeRequest},
	{Name: NoteProgress, Kind: KindNotification, Scope: ScopeProgressToken},
	{Name: NoteMessage, Kind: KindNotification, Capability: "logging"},
	{Name: NoteToolsChanged, Kind: KindListChanged, Item: ItemTool, Capability: "tools", Scope: ScopeServer},
	{Name: NotePromptsChanged, Kind: KindListChanged, Item: ItemPrompt, Capability: "prompts", Scope: ScopeServer},
	{Name: NoteResourcesChanged, Kind: KindListChanged, Item: ItemResource, Capability: "resources", Scope: ScopeServer},
	{Name: NoteResourceUpdated, Kind: KindNotification, Item: ItemResource, Member: "uri", Capability: "resources", Scope: ScopeServer},
	{Name: NoteRootsChanged, Kind: KindNotification, Capability: "roots", Until: Rev20260728},
	{Name: NoteAcknowledged, Kind: KindNotification, Scope: ScopeSubscription, Since: Rev20260728},
	{Name: NoteElicitComplete, Kind: KindNotification, Capability: "elicitation", Scope: ScopeServer, Since: Rev20251125, Until: Rev20260728},
	{Name: NoteTaskStatus, Kind: KindTaskStatus, Member: "taskId", Scope: ScopeServer, Since: Rev20251125, Until: Rev20260728},
	{Name: NoteTasks, Kind: KindTaskStatus, Member: "taskId", Scope: ScopeServer, Since: Rev20260728},
}

// Method is one row of the table of methods. The row of a method that is not in
// the table is the zero Method, so each zero value is the cautious one.
type Method struct {
	Name string
	Kind MethodKind
	// Item is the type of item that the message names, lists, or reports a change of.
	Item Item
	// Member is the member of params that names the item or the task, "" for none.
	// MemberOptional says that a request may omit it.
	Member         string
	MemberOptional bool
	// NameHeader says whether a modern request mirrors Member in the Mcp-Name header.
	NameHeader NameHeader
	// HasArguments says that params.arguments holds arguments of the item.
	HasArguments bool
	// Open says that a request names its item without the arguments that the item is
	// used with. Policy then asks whether any arguments are allowed, instead of
	// judging those of the request.
	Open bool
	// Rounds says that the answer may be input_required (2026-07-28,
	// basic/patterns/mrtr, "Supported Requests").
	Rounds bool
	// Cacheable says that results carry ttlMs and cacheScope.
	Cacheable bool
	// Shape is the content of the result of a request, or of the params of an ask.
	Shape Shape
	// Capability is the member of the capabilities that announces the method, ""
	// if none does.
	Capability string
	// ListMember is the member of the result that holds the items of a list.
	ListMember string
	// Scope says what a notification belongs to.
	Scope Scope
	// Since is the first revision that has the method, "" for all, and Until the
	// first that has it no longer, "" for none.
	Since, Until Revision
}

// MethodKind says which part of the gateway handles a method.
type MethodKind uint8

// The kinds of methods.
const (
	KindUnknown      MethodKind = iota // the method is not in the table
	KindLifecycle                      // begins or maintains a connection
	KindDiscover                       // asks for a description of the server
	KindList                           // lists items
	KindCall                           // uses an item: calls a tool, gets a prompt, reads a resource
	KindMetadata                       // describes a resource (SEP-2093)
	KindComplete                       // completes an argument of an item
	KindSubscribe                      // begins or ends updates of one resource
	KindListen                         // opens a stream of notifications
	KindTask                           // is about a task that a call began
	KindAsk                            // is a request of a server to its client
	KindListChanged                    // reports that a list has changed
	KindTaskStatus                     // reports how a task is
	KindNotification                   // is another notification
)

// Item is a type of item.
type Item uint8

// The types of items.
const (
	ItemNone Item = iota
	ItemTool
	ItemResource
	ItemTemplate
	ItemPrompt
	ItemReferred // a prompt or a template, as the type of the reference says
)

// NameHeader says whether the Mcp-Name header is sent with a method.
type NameHeader uint8

// The uses of the Mcp-Name header.
const (
	HeaderNone NameHeader = iota
	HeaderOptional
	HeaderRequired
)

// Shape is the content of a result, or of the params of an ask, if it has
// parts that the gateway rewrites, checks or lowers to an older revision.
type Shape uint8

// The shapes of results and of the params of asks.
const (
	ShapeOpaque     Shape = iota
	ShapeToolResult       // content, structuredContent
	ShapePrompt           // messages
	ShapeContents         // contents of a resource
	ShapeResources        // descriptions of resources
	ShapeCompletion
	ShapeTask // a task, perhaps with the result of its tool in "result"
	ShapeElicitation
	ShapeSampling
)

// Scope says what a notification belongs to, and so how its recipient is found.
type Scope uint8

// The scopes of notifications.
const (
	ScopeCall          Scope = iota // the call that it came with
	ScopeProgressToken              // the call whose progress token it carries
	ScopeRequest                    // the request whose id it carries
	ScopeSubscription               // the subscription whose id it carries
	ScopeServer                     // the server as a whole, or something that it names itself
)

var (
	methodsByName = make(map[string]*Method, len(methods))
	methodsByKind [KindNotification + 1][]*Method
	unknownMethod Method
)

func init() {
	for i := range methods {
		m := &methods[i]
		methodsByName[m.Name] = m
		methodsByKind[m.Kind] = append(methodsByKind[m.Kind], m)
	}
}

// MethodOf returns the row of a method, the zero Method for one that is not in the
// table. The caller must not change it.
func MethodOf(name string) *Method {
	if m := methodsByName[name]; m != nil {
		return m
	}
	return &unknownMethod
}

// MethodsOf returns the rows of a kind, in the order of the table. The caller owns
// the slice and must not change the rows.
func MethodsOf(kind MethodKind) []*Method { return slices.Clone(methodsByKind[kind]) }

// UsedBy returns the method that uses an item of this type, "" for ItemNone. A
// template is used by reading a resource that matches it.
func UsedBy(item Item) string {
	if item == ItemTemplate {
		item = ItemResource
	}
	for _, m := range methodsByKind[KindCall] {
		if m.Item == item {
			return m.Name
		}
	}
	return ""
}

// KnownTo reports whether a revision has the method. A method that is not in the
// table counts as known to all.
func (m *Method) KnownTo(r Revision) bool {
	return r.AtLeast(m.Since) && (m.Until == "" || !r.AtLeast(m.Until))
}

// Standalone reports whether a notification is about the server as a whole or about
// something that it names itself, whatever call it came with. A notification that
// is not in the table belongs to the call that it came with.
func (m *Method) Standalone() bool { return m.Scope == ScopeServer || m.Scope == ScopeSubscription }

// Header returns the member of params that the Mcp-Name header mirrors, "" when
// there is none (2026-07-28, basic/transports/streamable-http, "Standard Request
// Headers"), and whether a request must carry the header. For resources/metadata,
// a draft, the header is optional.
func (m *Method) Header() (member string, required bool) {
	if m.NameHeader == HeaderNone {
		return "", false
	}
	return m.Member, m.NameHeader == HeaderRequired
}
