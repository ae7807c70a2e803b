package main

import (
	"github.com/spf13/cobra"

	"mcpgateway/internal/config"
)

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of gateway.yaml",
		Long: "schema prints the JSON Schema (draft-07) of gateway.yaml. An editor with it\n" +
			"completes keys, shows their documentation and marks errors. init writes it beside\n" +
			"the new file; for another file, begin that with this line:\n\n" +
			"  " + schemaLine,
		Example: "  gateway schema > " + schemaFile,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.JSONSchema())
			return err
		},
	}
}

// schemaFile is the JSON Schema beside gateway.yaml, and schemaLine what refers to it.
const (
	schemaFile = "gateway.schema.json"
	schemaLine = "# yaml-language-server: $schema=./" + schemaFile
)
