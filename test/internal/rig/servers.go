package rig

import (
	"fmt"
	"path/filepath"
	"testing"

	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/process"
)

// Era is one of the protocol's two eras, spelled as in the gateway's configuration.
type Era string

const (
	Legacy Era = "legacy"
	Modern Era = "modern"
)

// FixtureCommand returns the command line of the conformance fixture on stdio. It supports both eras.
func FixtureCommand(t testing.TB) []string { return []string{binary(t, "fixture")} }

// Fixture starts the conformance fixture on streamable HTTP and returns its URL. A legacy fixture has sessions and does not support the modern era;
// a modern fixture is stateless.
func Fixture(t testing.TB, era Era) string {
	t.Helper()
	addr := netns.Addr()
	p := process.Start(t, process.Options{
		Name: "fixture " + string(era),
		Args: append(FixtureCommand(t), "-http="+addr, fmt.Sprintf("-stateless=%t", era == Modern)),
	})
	p.WaitListening(t, addr)
	return "http://" + addr
}

// TasksCommand returns the command line of the server whose tools run as tasks, on stdio.
func TasksCommand(t testing.TB, era Era) []string {
	return []string{binary(t, "tasks"), "-era", string(era)}
}

// Tasks starts the server whose tools run as tasks on streamable HTTP and returns its URL.
func Tasks(t testing.TB, era Era) string {
	t.Helper()
	addr := netns.Addr()
	p := process.Start(t, process.Options{Name: "tasks " + string(era), Args: append(TasksCommand(t, era), "-http="+addr)})
	p.WaitListening(t, addr)
	return "http://" + addr
}

// FeaturesCommand returns the command line of the Go SDK's server with every feature of the protocol in one era, on stdio.
func FeaturesCommand(t testing.TB, era Era) []string {
	return []string{binary(t, "features"), "-era", string(era)}
}

// Features starts the Go SDK's server with every feature on streamable HTTP and returns its URL.
func Features(t testing.TB, era Era) string {
	t.Helper()
	addr := netns.Addr()
	p := process.Start(t, process.Options{Name: "features " + string(era), Args: append(FeaturesCommand(t, era), "-http="+addr)})
	p.WaitListening(t, addr)
	return "http://" + addr
}

// FeaturesTSCommand returns the command line of the TypeScript SDK's server with every feature, on stdio. It supports both eras.
func FeaturesTSCommand(t testing.TB) []string { return Node(t, featuresJS) }

// FeaturesTS starts the TypeScript SDK's server with every feature on streamable HTTP, in both eras at once, and returns its URL.
func FeaturesTS(t testing.TB) string {
	t.Helper()
	port := netns.Port()
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	p := process.Start(t, process.Options{Name: "features TypeScript", Args: Node(t, featuresJS, fmt.Sprint(port))})
	p.WaitListening(t, addr)
	return "http://" + addr
}

// EverythingCommand returns the command line of the npm server "everything" on stdio.
func EverythingCommand(t testing.TB) []string { return Node(t, everythingJS, "stdio") }

// EverythingHTTP starts the npm server "everything" on streamable HTTP and returns its URL.
func EverythingHTTP(t testing.TB) string { return everything(t, "streamableHttp") + "/mcp" }

// EverythingSSE starts the npm server "everything" on HTTP+SSE and returns the URL of its event stream.
func EverythingSSE(t testing.TB) string { return everything(t, "sse") + "/sse" }

func everything(t testing.TB, transport string) string {
	t.Helper()
	port := netns.Port()
	p := process.Start(t, process.Options{
		Name: "everything " + transport,
		Args: Node(t, everythingJS, transport),
		Env:  []string{fmt.Sprintf("PORT=%d", port)},
	})
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	p.WaitListening(t, addr)
	return "http://" + addr
}

// FilesystemCommand returns the command line of the npm server "filesystem" on stdio with access to one folder.
func FilesystemCommand(t testing.TB, folder string) []string { return Node(t, filesystemJS, folder) }

// MemoryCommand returns the command line of the npm server "memory" on stdio, and the environment that stores its graph in a temporary folder.
func MemoryCommand(t testing.TB) (args []string, env map[string]string) {
	return Node(t, memoryJS), map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "memory.jsonl")}
}

// ThinkingCommand returns the command line of the npm server "sequential-thinking" on stdio.
func ThinkingCommand(t testing.TB) []string { return Node(t, thinkingJS) }

// PlaywrightCommand returns the command line of @playwright/mcp on stdio. No browser is installed: a test can only read its lists.
func PlaywrightCommand(t testing.TB) []string { return Node(t, playwrightJS, "--headless") }

// OpenID starts an OpenID provider whose user consents to everything, and returns its URL, which is the issuer of its tokens. The audience of a token
// is the resource that the client names, the scopes are among mcp and notes:write, and the subject, ann, is in the group staff.
func OpenID(t testing.TB, redirects ...string) string {
	t.Helper()
	addr := netns.Addr()
	p := process.Start(t, process.Options{Name: "OpenID provider", Args: Node(t, openIDJS, append([]string{addr}, redirects...)...)})
	p.WaitListening(t, addr)
	return "http://" + addr
}
