// Package internal_test holds the import rules of all packages, and the files that every package has.
package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "mcpgateway/internal/"

// mayImport lists which of our packages each package may import. What is not
// listed here is forbidden, for the reason beside it.
var mayImport = map[string]struct {
	ours   []string
	reason string
}{
	"wire":       {nil, "everything leans on wire, so it leans on nothing of ours"},
	"gzipped":    {nil, "bytes are compressed without regard to their meaning"},
	"call":       {[]string{"wire", "gzipped"}, "the inner shape is nearly a leaf: what it imports, everyone does"},
	"namespace":  {[]string{"wire", "call"}, "naming is pure: no table, no policy, no transport"},
	"canonical":  {nil, "the spelling of a URI does not depend on who may read it"},
	"advice":     {nil, "an advised command is completed without regard to what it does"},
	"glob":       {nil, "policy and configuration share globs, and know nothing of each other"},
	"plaintext":  {nil, "questions about characters and words depend on nothing of ours"},
	"policy":     {[]string{"wire", "call"}, "a decision depends on the item and the principal alone"},
	"profile":    {[]string{"wire", "call", "policy"}, "a profile is a selection, without regard to which items there are"},
	"content":    {[]string{"wire"}, "operations on content depend on JSON alone"},
	"toolschema": {[]string{"wire", "content"}, "a value is validated by its schema alone, whatever the method or the upstream"},
	"sanitize":   {[]string{"wire", "call", "content"}, "characters are removed by their class, whatever upstream sent them"},
	"downlevel":  {[]string{"wire", "call", "content"}, "the older form of a result depends on the client's revision alone"},
	"enrich":     {[]string{"wire", "content"}, "metadata is passed in as a function, so that the catalog can import the package"},
	"conform":    {[]string{"wire", "call", "namespace", "content", "toolschema", "sanitize"}, "checks look at one result or item, never at the catalog or a transport"},
	"catalog":    {[]string{"wire", "call", "gzipped", "canonical", "namespace", "policy", "profile", "conform", "toolschema", "sanitize", "enrich", "downlevel", "search"}, "the table is built from names and decisions, not from connectors"},
	"search":     {[]string{"wire"}, "tools are ranked by their words alone: the catalog says which documents a view has"},
	"script":     {[]string{"wire"}, "a script reaches its host alone, which is handed in"},
	"consent":    {[]string{"wire", "call", "plaintext"}, "what a user is shown depends on the call alone"},
	"seal":       {nil, "a text is sealed without regard to its meaning"},
	"bridge":     {[]string{"wire", "call", "seal"}, "bridging is about the inner shape, not about who carries it"},
	"router":     {[]string{"wire", "call", "catalog", "namespace", "policy", "conform", "toolschema", "sanitize", "enrich", "downlevel", "bridge", "consent", "fairshare", "ratelog", "results", "imagescale"}, "the pipeline declares what it needs of upstreams and front ends instead of importing them"},

	"ruleset": {[]string{"wire", "catalog", "config", "conform", "endpoint", "inspect", "metatool", "namespace", "policy", "profile", "router", "sanitize", "script", "toolschema"}, "rules are compiled without regard to which connections exist"},

	"personal": {[]string{"call", "catalog", "conform", "policy", "router", "upstream", "upstream/connector"}, "the tables of principals depend on what sessions list and on how the gateway builds a table, which is handed in"},

	"clientauth": {[]string{"advice", "auth", "call", "config", "endpoint", "ruleset"}, "how clients authenticate depends on the configuration alone, not on a gateway that runs"},

	"granting": {[]string{"advice", "call", "catalog", "credentials", "router", "upstream", "wire"}, "it stands between the router and the sessions of an upstream, and nowhere else"},

	"metatool": {[]string{"toolschema", "fairshare", "script", "wire", "call", "catalog", "profile", "content", "search", "results"}, "own tools see one view and call through the pipeline: they know neither upstreams nor the router"},

	"frontend":         {[]string{"wire", "call", "gzipped", "bridge", "origin", "ratelog", "requestid", "fairshare", "frontend/park", "frontend/session", "frontend/stream"}, "the edges meet in the inner shape and never know one another or the router"},
	"frontend/park":    {[]string{"wire", "call", "bridge", "consent", "fairshare", "ratelog"}, "a parked call is continued without regard to who carries its requests"},
	"frontend/session": {[]string{"wire", "call", "seal", "fairshare", "frontend/stream"}, "a session is state of a client, without regard to how its messages travel"},
	"frontend/stream":  {[]string{"wire", "fairshare"}, "a stream carries messages without regard to who sends them"},

	"auth":                  {[]string{"wire", "call", "endpoint", "origin", "plaintext", "ttlcache", "oauthmeta"}, "the edges meet in the inner shape and never know one another or the router"},
	"credentials":           {[]string{"advice", "wire", "call", "atomicfile", "origin", "ttlcache", "oauthmeta", "plaintext", "store"}, "credentials for upstreams never meet the credentials of clients; they share the principal only"},
	"store":                 {[]string{"seal"}, "values are kept without regard to their meaning: those who share something say what it is"},
	"store/redis":           {[]string{"store"}, "a store keeps what it is given: those who share something say what it is"},
	"store/storetest":       {[]string{"store", "polltest"}, "what every store passes knows none of them"},
	"sessionstore":          {[]string{"wire", "store", "fairshare", "frontend/session", "frontend/stream"}, "what replicas share of sessions is kept without regard to how messages travel"},
	"replica":               {[]string{"store", "ratelog"}, "replicas exchange bytes without regard to their meaning"},
	"replica/sharedlimits":  {[]string{"store"}, "calls are counted without regard to what they are about"},
	"replica/sharedtasks":   {[]string{"store", "call"}, "tasks are shared by their public ids, without regard to what they are"},
	"replica/sharedresults": {[]string{"store", "results", "wire"}, "results are shared without regard to who asks: the router and metatool know calls"},
	"replica/held":          {[]string{"wire", "call", "store", "ratelog", "replica", "replica/lease", "replica/remote", "router", "upstream", "upstream/protocol", "upstream/transport/httpconn"}, "it stands between the router and the sessions of an upstream, and nowhere else"},
	"replica/lease":         {[]string{"store"}, "a lease is held without regard to what it is for"},
	"replica/opensessions":  {[]string{"store"}, "sessions are noted without regard to what they are for"},
	"replica/remote":        {[]string{"wire", "call", "replica", "store"}, "a call is passed on without regard to what it is about"},
	"config":                {[]string{"advice", "configfile", "glob"}, "config knows gateway.yaml only; the gateway package translates"},
	"configfile":            {nil, "it knows the languages of files and no keys"},
	"hostimport":            {[]string{"advice", "config", "configfile"}, "other programs' files become a gateway.yaml, and nothing else comes of them"},
	"instance":              {nil, "a socket is found without regard to what is asked through it"},
	"hostconfig":            {[]string{"atomicfile", "origin"}, "the file of a host is edited without regard to who asks"},
	"endpoint":              {nil, "which profile a request gets depends on the request, and on what the principal has"},
	"embeddings":            {[]string{"atomicfile", "search"}, "vectors are of documents and queries, whatever view shows them"},
	"landing":               {[]string{"hostconfig"}, "the page shows what belongs into the files of hosts, and nothing of the gateway but its URL"},
	"origin":                {nil, "the sender of a request is judged by its headers and address alone"},
	"results":               {[]string{"wire", "content"}, "a document is kept and read without regard to who asks: the router and metatool know calls"},
	"imagescale":            {nil, "an image is scaled by its bytes alone"},
	"fairshare":             {nil, "a budget does not depend on what it counts"},
	"latest":                {[]string{"wire", "call"}, "the latest credentials of a principal depend neither on how they were proved nor on what they are for"},
	"requestid":             {nil, "an id is made and checked without regard to the request"},
	"ratelog":               {nil, "a rate limit does not depend on what is logged"},
	"oauthmeta":             {[]string{"wire"}, "metadata is parsed without a network: callers fetch documents, each with its own checks"},
	"ttlcache":              {nil, "a cache knows nothing of its entries"},
	"mask":                  {nil, "text is masked without regard to its origin; gateway hands in the secrets"},
	"atomicfile":            {nil, "a file is locked and replaced without regard to its content"},
	"tlsfiles":              {nil, "files of TLS are read without regard to who serves with them"},
	"statedir":              {[]string{"wire", "atomicfile"}, "files in the state folder are data; gateway says what they mean"},
	"pins":                  {[]string{"advice", "wire", "atomicfile", "configfile", "statedir"}, "a definition is accepted by its digest, without regard to who lists it"},
	"inspect":               {[]string{"advice", "requestid", "wire", "call", "catalog", "endpoint", "policy", "profile", "conform", "toolschema", "upstream", "upstream/connector"}, "an inspection declares what it reads of the gateway, so that the admin address can show it"},
	"telemetry":             {nil, "each package owns its metrics and is handed a registry"},
	"tracing":               {[]string{"wire", "call"}, "spans are made of calls and stages, wherever those happen: everyone reaches it through call"},
	"admin":                 {[]string{"origin"}, "health and metrics are handed in as functions"},
	"webui":                 {[]string{"wire", "pins", "call", "catalog", "inspect", "origin", "store", "requestid", "webui/difference", "webui/jsontext", "webui/schemaform"}, "the console shows what inspect says, and posts actions to functions that are handed in"},
	"webui/difference":      {[]string{"wire"}, "definitions are compared without regard to which server has them"},
	"webui/jsontext":        {[]string{"wire"}, "JSON is written for people without regard to what it says"},
	"webui/schemaform":      {[]string{"wire", "webui/jsontext"}, "a form depends on the schema and on what was typed alone"},
	"console":               {[]string{"wire"}, "what people read and type depends on the messages alone, not on who carries them"},
	"polltest":              {nil, "tests of every package may import it, so it imports nothing of ours"},
	"watch":                 {nil, "a change of a file is noticed without regard to its meaning"},
	"demo":                  {nil, "the demo upstreams are servers like any other: the gateway reaches them by the protocol alone"},

	// The packages below upstream.
	"upstream":                      {[]string{"wire", "call", "fairshare", "ratelog", "upstream/process", "upstream/diagnose", "upstream/protocol", "upstream/connector", "upstream/transport", "upstream/transport/inproc", "upstream/transport/httpconn"}, "the edges meet in the inner shape and never know one another or the router"},
	"upstream/connector":            {[]string{"wire", "call", "upstream/diagnose", "upstream/protocol"}, "a connector knows neither who shares its session nor a transport: both are handed in"},
	"upstream/upstreamtest":         {[]string{"wire", "call"}, "the tests of upstream and of the packages below it share one server, so it imports none of them"},
	"upstream/protocol":             {[]string{"wire", "call"}, "the contract of conversations knows neither connectors nor transports"},
	"upstream/diagnose":             {[]string{"advice", "upstream/process"}, "an error is explained without regard to the transport that met it"},
	"upstream/transport":            {[]string{"upstream/process", "upstream/protocol", "upstream/transport/stdio", "upstream/transport/inproc", "upstream/transport/httpconn", "upstream/transport/streamable", "upstream/transport/sse"}, "one table lists the transports, and nothing else chooses among them"},
	"upstream/transport/line":       {[]string{"wire", "call", "ratelog", "upstream/diagnose", "upstream/process", "upstream/protocol"}, "a transport knows the contract and never a connector"},
	"upstream/transport/httpconn":   {[]string{"wire", "call", "ratelog", "requestid", "http1", "sockio", "oauthmeta", "upstream/diagnose", "upstream/protocol"}, "a transport knows the contract and never a connector"},
	"upstream/transport/streamable": {[]string{"wire", "call", "upstream/diagnose", "upstream/protocol", "upstream/transport/httpconn"}, "a transport knows the contract and never a connector"},
	"upstream/transport/sse":        {[]string{"wire", "call", "upstream/diagnose", "upstream/protocol", "upstream/transport/httpconn"}, "a transport knows the contract and never a connector"},
	"upstream/transport/stdio":      {[]string{"upstream/process", "upstream/protocol", "upstream/transport/line"}, "a transport knows the contract and never a connector"},
	"upstream/transport/inproc":     {[]string{"upstream/protocol", "upstream/transport/line"}, "a transport knows the contract and never a connector"},
	"upstream/process":              {nil, "children are started and ended without regard to what they speak"},
	"sockio":                        {nil, "a socket is read and written without regard to the protocol"},
	"http1server":                   {[]string{"call", "sockio"}, "a server knows HTTP and no messages; the context of a request is a call.Scope, below which that of the call costs nothing"},
	"http1":                         {[]string{"sockio"}, "an HTTP client knows HTTP: it replaces http.Transport and nothing else"},
}

// leaves answer questions about text. Every package may import them.
var leaves = []string{"glob", "plaintext"}

// pure packages have no input and output: they can be tested and reasoned about
// without a network, a clock or a log.
var pure = []string{"wire", "gzipped", "call", "canonical", "glob", "plaintext", "namespace", "policy", "profile", "conform", "content", "toolschema", "sanitize", "enrich", "downlevel", "catalog", "seal", "bridge", "consent", "search", "imagescale", "script"}

var notInPure = []string{"net/http", "net", "os", "os/exec", "log", "log/slog", "go.uber.org/zap", "github.com/prometheus/client_golang/prometheus"}

func TestImports(t *testing.T) {
	for name, imports := range packages(t) {
		if name == "gateway" || name == "gatewaytest" {
			continue // gateway knows everyone; gatewaytest is imported by tests only
		}
		rule, ok := mayImport[name]
		if !ok {
			t.Errorf("internal/%s has no import rule: add one to mayImport, with its reason", name)
			continue
		}
		for _, imp := range imports {
			if ours, is := strings.CutPrefix(imp, module); is && !slices.Contains(rule.ours, ours) && !slices.Contains(leaves, ours) {
				t.Errorf("internal/%s imports internal/%s: %s", name, ours, rule.reason)
			}
			if slices.Contains(pure, name) && slices.Contains(notInPure, imp) {
				t.Errorf("internal/%s imports %s: it is pure, so that it can be tested without a network, a clock or a log", name, imp)
			}
		}
	}
}

func TestEveryPackageHasDocAndLeakCheck(t *testing.T) {
	for name := range packages(t) {
		doc, err := os.ReadFile(filepath.Join(name, "doc.go"))
		if err != nil {
			t.Errorf("internal/%s: no doc.go with the package's purpose: %v", name, err)
		} else if !strings.HasPrefix(string(doc), "// Package "+filepath.Base(name)+" ") {
			t.Errorf("internal/%s/doc.go does not begin with the package's comment", name)
		}
		main, err := os.ReadFile(filepath.Join(name, "main_test.go"))
		if err != nil || !strings.Contains(string(main), "goleak.") {
			t.Errorf("internal/%s: no leak check in the TestMain of main_test.go", name)
		}
	}
}

// packages returns the packages below this folder by name, each with the
// imports of its files that are no tests.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string]map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if strings.Contains(path, "testdata") {
			return nil
		}
		if found[pkg] == nil {
			found[pkg] = map[string]bool{}
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			p, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			found[pkg][p] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for pkg, imports := range found {
		out[pkg] = slices.Sorted(maps.Keys(imports))
	}
	return out
}
