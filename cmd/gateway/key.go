package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/wire"
)

// maxKeyID bounds the id of a key, as the configuration does.
const maxKeyID = 256

func newKey() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make an API key and its entry for gateway.yaml",
		Long: "key makes an API key and prints it once: it is stored nowhere. Then it prints the\n" +
			"entry for gateway.yaml, which contains only the digest of the key. Clients send\n" +
			"the key as Authorization: Bearer KEY, or as X-API-Key: KEY.",
		Example: "  gateway key\n  gateway key --id ada-laptop",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usageError{fmt.Errorf("key takes no argument; for the id of the key write --id %s", shellWord(args[0]))}
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case len(id) > maxKeyID || strings.ContainsFunc(id, unicode.IsControl):
				return usageError{fmt.Errorf("--id must be 1 to %d characters without control characters", maxKeyID)}
			case id == "":
				id = "key-" + time.Now().UTC().Format("20060102-150405")
			}
			key, digest := auth.NewKey()
			// A JSON string is a YAML string.
			_, err := fmt.Fprintf(cmd.OutOrStdout(), `# The key, shown this once:
#   %s

auth:
  mode: api-key
  api_keys:
    - id: %s
      sha256: %s
`, key, wire.String(id), digest)
			return err
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "`ID` of the key, the subject of its principal (default: from the time)")
	return cmd
}
