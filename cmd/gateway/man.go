package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan returns the hidden verb by which a release makes its manual pages.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write a manual page for each verb",
		Args:   oneArg("FOLDER"),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := doc.GenManHeader{Section: "1", Source: "gateway " + version(), Manual: "MCP gateway"}
			// Without a date the pages would have that of today.
			if _, at := source(); at != "" {
				if date, err := time.Parse(time.RFC3339, at); err == nil {
					header.Date = &date
				}
			}
			return doc.GenManTree(root, &header, args[0])
		},
	}
}
