package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "search:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("say gather or measure")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	data := flags.String("data", filepath.Join(os.TempDir(), "search-data"), "folder of gathered definitions")
	switch args[0] {
	case "gather":
		manifest := flags.Bool("manifest", false, "write bench/search/manifest.json")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return gather(ctx, *data, *manifest)
	case "measure":
		var m measurement
		flags.StringVar(&m.mcpproxy, "mcpproxy", "", "clone of mcpproxy-go")
		flags.StringVar(&m.metatool, "metatool", "", "clone of MetaTool")
		flags.StringVar(&m.half, "half", "report", "queries: tune, report or all")
		flags.IntVar(&m.failures, "failures", 0, "how many failures of each set to print")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		m.data = *data
		return m.run(os.Stdout)
	}
	return fmt.Errorf("%q is neither gather nor measure", args[0])
}
