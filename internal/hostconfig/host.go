package hostconfig

import (
	"errors"
	"path/filepath"
	"strings"
)

// Host is a program with a list of MCP servers in a file.
type Host struct {
	Name  string // on the command line, such as claude-code
	Title string // for people, such as Claude Code
	// Program is the command that starts the host, "" if there is none. A host that was never started has no file yet.
	Program string
	// Key is the member of the file that holds the servers.
	Key string
	// Reload says how the host notices a change of its file, in one sentence.
	Reload string
	// Look says where to see in the host whether it works, as the end of a sentence; "" if Reload says it.
	Look string

	toml     bool
	json     dialect
	url      string // the member for a URL, "" if the host takes only commands
	typed    bool   // a member type says stdio or http
	typedURL bool   // a member type says http, and there is none for commands
	emptyEnv bool   // an entry with a command has an empty env
	file     func(Machine) string
}

// dialect says what a host reads in its file beyond plain JSON. Claude Code 2, Gemini CLI 0 and Claude Desktop were observed;
// a host of which nothing is known counts as lenient.
type dialect struct{ comments, trailingCommas, byteOrderMark bool }

var lenient = dialect{comments: true, trailingCommas: true, byteOrderMark: true}

// Machine is the part of a machine that decides where hosts keep their files.
type Machine struct {
	OS   string // as runtime.GOOS
	Home string // the home folder of the user
	Env  func(string) string
}

// errNoHome is the error for a user without a home folder.
var errNoHome = errors.New("your home folder is not known: set HOME, or name the host's file with --file")

// hosts are all hosts in the order in which they are listed.
var hosts = []Host{
	{
		Name: "claude-desktop", Title: "Claude Desktop", Key: "mcpServers",
		Reload: "Quit Claude Desktop completely and start it again.",
		file:   func(m Machine) string { return m.appData("Claude", "claude_desktop_config.json") },
	},
	{
		Name: "claude-code", Title: "Claude Code", Program: "claude", Key: "mcpServers", url: "url", typed: true, json: dialect{byteOrderMark: true},
		Reload: "Start a new session of Claude Code.", Look: "claude mcp list, or /mcp in a session",
		file: func(m Machine) string {
			return filepath.Join(m.or("CLAUDE_CONFIG_DIR", m.Home), ".claude.json")
		},
	},
	{
		Name: "cursor", Title: "Cursor", Program: "cursor", Key: "mcpServers", url: "url", json: lenient,
		Reload: "Cursor reads the file at once.", Look: "open Settings, MCP, and switch the server on",
		file: func(m Machine) string { return filepath.Join(m.Home, ".cursor", "mcp.json") },
	},
	{
		Name: "vscode", Title: "VS Code", Program: "code", Key: "servers", url: "url", typed: true, json: lenient,
		Reload: "VS Code reads the file at once.", Look: "run the command MCP: List Servers, and start the gateway",
		file: func(m Machine) string {
			if portable := m.Env("VSCODE_PORTABLE"); portable != "" {
				return filepath.Join(portable, "user-data", "User", "mcp.json")
			}
			return m.appData("Code", "User", "mcp.json")
		},
	},
	{
		Name: "windsurf", Title: "Windsurf", Program: "windsurf", Key: "mcpServers", url: "serverUrl", json: lenient,
		Reload: "Press refresh in Windsurf's panel for MCP servers.",
		file:   func(m Machine) string { return filepath.Join(m.Home, ".codeium", "windsurf", "mcp_config.json") },
	},
	{
		Name: "zed", Title: "Zed", Program: "zed", Key: "context_servers", url: "url", emptyEnv: true, json: lenient,
		Reload: "Zed reads the file at once.", Look: "open the settings of the agent panel",
		file: func(m Machine) string {
			switch m.OS {
			case "windows":
				return m.appData("Zed", "settings.json")
			case "darwin":
				return filepath.Join(m.Home, ".config", "zed", "settings.json")
			}
			return filepath.Join(m.or("FLATPAK_XDG_CONFIG_HOME", m.configHome()), "zed", "settings.json")
		},
	},
	{
		Name: "codex", Title: "Codex", Program: "codex", Key: "mcp_servers", toml: true, url: "url",
		Reload: "Start Codex again.", Look: "codex mcp list",
		file: func(m Machine) string {
			return filepath.Join(m.or("CODEX_HOME", filepath.Join(m.Home, ".codex")), "config.toml")
		},
	},
	{
		Name: "gemini", Title: "Gemini CLI", Program: "gemini", Key: "mcpServers", url: "url", typedURL: true, json: dialect{comments: true},
		Reload: "Start Gemini CLI again.", Look: "gemini mcp list, in a folder that you trust",
		file: func(m Machine) string {
			return filepath.Join(m.or("GEMINI_CLI_HOME", m.Home), ".gemini", "settings.json")
		},
	},
}

// aliases are other names under which people know a host.
var aliases = map[string]string{
	"claude": "claude-code", "desktop": "claude-desktop", "code": "vscode", "vs-code": "vscode", "gemini-cli": "gemini", "codex-cli": "codex",
}

// Hosts returns all hosts.
func Hosts() []Host { return append([]Host(nil), hosts...) }

// Names returns the names of all hosts.
func Names() []string {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
	}
	return names
}

// Find returns the host with a name. Case does not matter.
func Find(name string) (Host, bool) {
	name = strings.ToLower(name)
	if full, ok := aliases[name]; ok {
		name = full
	}
	for _, h := range hosts {
		if h.Name == name {
			return h, true
		}
	}
	return Host{}, false
}

// TakesURL reports whether the host's file can name a server by its URL.
func (h Host) TakesURL() bool { return h.url != "" }

// ReloadOf says how the host notices a change of one of its files.
func (h Host) ReloadOf(file string) string {
	if h.Name == "claude-code" && filepath.Base(file) == ".mcp.json" {
		return "Start claude in the folder of that file and approve the server: Claude Code asks once about each server of a project."
	}
	return h.Reload
}

// KeyHeader is the header of an entry with a URL if the gateway requires an API key, in the format of the file.
func (h Host) KeyHeader() string {
	if h.toml {
		return `http_headers = { Authorization = "Bearer KEY" }`
	}
	return `"headers": {"Authorization": "Bearer KEY"}`
}

// File is the path at which the host looks for the servers of the user.
func (h Host) File(m Machine) (string, error) {
	if m.Home == "" {
		return "", errNoHome
	}
	return h.file(m), nil
}

func (m Machine) or(variable, otherwise string) string {
	if v := m.Env(variable); v != "" {
		return v
	}
	return otherwise
}

// configHome is the folder of configurations of the XDG base directory specification.
func (m Machine) configHome() string {
	if v := m.Env("XDG_CONFIG_HOME"); filepath.IsAbs(v) { // a relative path is invalid
		return v
	}
	return filepath.Join(m.Home, ".config")
}

// appData is a path below the folder in which desktop programs keep their data.
func (m Machine) appData(path ...string) string {
	folder := m.configHome()
	switch m.OS {
	case "darwin":
		folder = filepath.Join(m.Home, "Library", "Application Support")
	case "windows":
		folder = m.or("APPDATA", filepath.Join(m.Home, "AppData", "Roaming"))
	}
	return filepath.Join(append([]string{folder}, path...)...)
}
