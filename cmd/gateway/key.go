package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/config"
	"mcpgateway/internal/wire"
)

func newKey() *cobra.Command {
	var id, subject string
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make an API key and its entry for gateway.yaml",
		Long: "key makes an API key and prints it once: it is stored nowhere. Then it prints the\n" +
			"entry for gateway.yaml, which contains only the digest of the key. Clients send\n" +
			"the key as Authorization: Bearer KEY, or as X-API-Key: KEY. A key that replaces\n" +
			"another one keeps its subject: --id names the key, --subject its principal.",
		Example: "  gateway key\n  gateway key --id ada-laptop\n  gateway key --id ada-laptop-2 --subject ada-laptop",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usageError{fmt.Errorf("key takes no argument; for the id of the key write --id %s", shellWord(args[0]))}
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if id == "" {
				id = "key-" + time.Now().UTC().Format("20060102-150405")
			}
			if err := config.CheckSubject(id); err != nil {
				return usageError{fmt.Errorf("--id %w", err)}
			}
			if err := config.CheckSubject(cmp.Or(subject, id)); err != nil {
				return usageError{fmt.Errorf("--subject %w", err)}
			}
			of := ""
			if subject != "" {
				of = "\n      subject: " + string(wire.String(subject))
			}
			key, digest := auth.NewKey()
			// A JSON string is a YAML string.
			_, err := fmt.Fprintf(cmd.OutOrStdout(), `# The key, shown this once:
#   %s

auth:
  mode: api-key
  api_keys:
    - id: %s%s
      sha256: %s

# Without a policy, clients with a key may use nothing. This allows all of them
# everything; docs/configuration.md shows rules for less:
#policy: {default: allow}
`, key, wire.String(id), of, digest)
			return err
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "`ID` of the key (default: from the time)")
	cmd.Flags().StringVar(&subject, "subject", "", "`SUBJECT` of its principal (default: the id)")
	return cmd
}
