package hostimport

import (
	"os"
	"path"
	"slices"
	"strings"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/config"
)

// ownGateway says how a server is the gateway itself, "" if it is not. It warns about one that is another running gateway.
func (im *importer) ownGateway(s *server) string {
	if im.Gateways {
		return ""
	}
	if s.url != "" {
		into := im.Into
		if into == nil {
			into = config.Default(os.LookupEnv)
		}
		at := im.expand(s.url, (*placeholder).original)
		if is := into.OwnAddress(at); is != "" {
			return "its url is " + is
		}
		gateway, own := "", false
		if im.Served != nil {
			gateway, own = im.Served(at)
		}
		switch {
		case own: // its flags or environment have changed its address
			return "its url leads to the gateway that runs with this configuration: " + gateway
		case gateway != "":
			im.warnServer(s, "leads to another gateway that you run: %s; remove it unless you want its servers behind this one too", gateway)
		case s.gateway == Gateway{s.key, at}:
			return "gateway connect has written it, for a gateway that does not run now; if you want its servers behind this one too, use gateway add" + advice.ConfigFlag()
		}
		return ""
	}
	program := strings.TrimSuffix(path.Base(strings.ReplaceAll(s.command, `\`, "/")), ".exe")
	if known := program == "gateway" || im.Program != "" && program == im.Program; known && len(s.args) > 0 && slices.Contains([]string{"stdio", "run"}, s.args[0]) {
		return "it starts a gateway (" + program + " " + s.args[0] + ")"
	}
	return ""
}
