package advice

import "sync/atomic"

var configFlag atomic.Pointer[string]

// SetConfigFlag says which flag names the configuration of this process, such as " -c other.yaml", quoted for a shell.
// It is "" if each command finds the configuration by itself. The command line sets it once, before anything advises.
func SetConfigFlag(flag string) { configFlag.Store(&flag) }

// ConfigFlag returns the flag to write after an advised command, with a space before it, or "".
func ConfigFlag() string {
	if flag := configFlag.Load(); flag != nil {
		return *flag
	}
	return ""
}
