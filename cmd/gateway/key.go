package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/config"
	"mcpgateway/internal/wire"
)

func newKey() *cobra.Command {
	var entry config.APIKey
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make an API key and its entry for gateway.yaml",
		Long: "key makes an API key and prints it once: it is stored nowhere. Then it prints the\n" +
			"entry for gateway.yaml, which contains only the digest of the key. Clients send\n" +
			"the key as Authorization: Bearer KEY, or as X-API-Key: KEY. A key that replaces\n" +
			"another one keeps its subject: --id names the key, --subject its principal.\n" +
			"The other flags say what its principal has and when the key expires.",
		Example: "  gateway key\n  gateway key --id ada-laptop\n  gateway key --id ada-laptop-2 --subject ada-laptop\n  gateway key --id ci --group dev --expires 2030-01-31",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usageError{fmt.Errorf("key takes no argument; for the id of the key write --id %s", shellWord(args[0]))}
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if entry.ID == "" {
				entry.ID = "key-" + time.Now().UTC().Format("20060102-150405")
			}
			if err := config.CheckSubject(entry.ID); err != nil {
				return usageError{fmt.Errorf("--id %w", err)}
			}
			if err := config.CheckSubject(cmp.Or(entry.Subject, entry.ID)); err != nil {
				return usageError{fmt.Errorf("--subject %w", err)}
			}
			if err := entry.Check(); err != nil {
				return usageError{err}
			}
			if at := entry.ExpiresAt(); !at.IsZero() && !at.After(time.Now()) {
				return usageError{fmt.Errorf("--expires %s is in the past: no client could use the key; give a later time, or leave it out for a key that never expires", entry.Expires)}
			}
			key, digest := auth.NewKey()
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
`, key, wire.String(entry.ID), membersOf(&entry), digest)
			return err
		},
	}
	cmd.Flags().StringVar(&entry.ID, "id", "", "`ID` of the key (default: from the time)")
	cmd.Flags().StringVar(&entry.Subject, "subject", "", "`SUBJECT` of its principal (default: the id)")
	cmd.Flags().StringArrayVar(&entry.Groups, "group", nil, "`GROUP` of its principal; may be repeated")
	cmd.Flags().StringArrayVar(&entry.Scopes, "scope", nil, "`SCOPE` of its principal; may be repeated")
	cmd.Flags().StringArrayVar(&entry.Profiles, "profile", nil, "`PROFILE` that its principal gets (default: all); may be repeated")
	cmd.Flags().StringVar(&entry.Expires, "expires", "", "`TIME` when the key expires: a day, as 2030-01-31, or a time as in RFC 3339 (default: never)")
	return cmd
}

// membersOf returns the lines of an entry between its id and its digest.
func membersOf(k *config.APIKey) string {
	var b strings.Builder
	text := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "\n      %s: %s", key, wire.String(value)) // a JSON string is a YAML string
		}
	}
	list := func(key string, values []string) {
		if len(values) == 0 {
			return
		}
		quoted := make([]string, len(values))
		for i, v := range values {
			quoted[i] = string(wire.String(v))
		}
		fmt.Fprintf(&b, "\n      %s: [%s]", key, strings.Join(quoted, ", "))
	}
	text("subject", k.Subject)
	list("groups", k.Groups)
	list("scopes", k.Scopes)
	list("profiles", k.Profiles)
	text("expires", k.Expires)
	return b.String()
}
