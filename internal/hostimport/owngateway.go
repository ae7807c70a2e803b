package hostimport

import (
	"os"
	"path"
	"slices"
	"strings"

	"mcpgateway/internal/config"
)

// ownGateway says how a server is the gateway itself, "" if it is not.
func (im *importer) ownGateway(s *server) string {
	if im.Gateways {
		return ""
	}
	if s.url != "" {
		into := im.Into
		if into == nil {
			into = config.Default(os.LookupEnv)
		}
		if is := into.OwnAddress(im.expand(s.url, (*placeholder).original)); is != "" {
			return "its url is " + is
		}
		return ""
	}
	program := strings.TrimSuffix(path.Base(strings.ReplaceAll(s.command, `\`, "/")), ".exe")
	if known := program == "gateway" || im.Program != "" && program == im.Program; known && len(s.args) > 0 && slices.Contains([]string{"stdio", "run"}, s.args[0]) {
		return "it starts a gateway (" + program + " " + s.args[0] + ")"
	}
	return ""
}
