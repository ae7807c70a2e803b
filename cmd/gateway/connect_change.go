package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"mcpgateway/internal/configfile"
	"mcpgateway/internal/console"
	"mcpgateway/internal/hostconfig"
)

// change is what connect does to the file of a host.
type change struct {
	after   []byte
	had     hostconfig.Entry // the entry that is replaced, if there is one
	without []byte           // the file without entries that connect has added, nil if there are none
	// keepBackup says that the file before the first connect is in the backup, or that there was none: it must stay so.
	keepBackup bool
}

// write changes the file. Its backup has no gateway, so that disconnect can restore it.
func (c change) write(f *hostconfig.File) error {
	switch {
	case c.keepBackup:
		return f.Overwrite(c.after)
	case c.without != nil:
		return f.ReplaceKeeping(c.after, c.without)
	}
	return f.Replace(c.after)
}

// isNone reports whether nothing changes in a file.
func (c change) isNone(f *hostconfig.File) bool { return string(c.after) == string(f.Data) && f.Exists }

// change adds an entry to the file of a host. It replaces another entry that connect has written.
func (o *connectOptions) change(h hostconfig.Host, f *hostconfig.File, e hostconfig.Entry) (change, error) {
	after, err := h.Connect(f.Data, o.name, e)
	conflict, taken := errors.AsType[*hostconfig.Conflict](err)
	if err != nil && !taken {
		return change{}, connecting(err, h, f)
	}
	before, err := f.Before()
	if err != nil {
		return change{}, configfile.Unreadable(f.Backup(), err)
	}
	if !taken {
		c := change{after: after}
		return c, c.strip(h, f, "", before)
	}
	had, _, err := h.Entry(f.Data, o.name, before)
	if err != nil {
		return change{}, err
	}
	if had.URL == "" && had.Command == "" {
		return change{}, fmt.Errorf("%s: %w; choose another name with --name, or remove it first", f.Name, conflict)
	}
	if added := h.Added(f.Data, o.name); len(added) > 0 {
		return change{}, fmt.Errorf("%s is connected already (%s), and connect did not write %s of that entry. To replace it: gateway disconnect %s%s, then connect again",
			h.Title, conflict.Other, strings.Join(added, ", "), h.Name, o.place())
	}
	if after, err = h.Replace(f.Data, o.name, e); err != nil {
		return change{}, connecting(err, h, f)
	}
	c := change{after: after, had: had}
	return c, c.strip(h, f, o.name, before)
}

// strip decides what the backup has: the file without entries that connect has added, and without the one under a name.
func (c *change) strip(h hostconfig.Host, f *hostconfig.File, name string, before []byte) error {
	without, err := h.Without(f.Data, name, before)
	if err != nil {
		return connecting(err, h, f)
	}
	if string(without) != string(f.Data) {
		c.without, c.keepBackup = without, string(without) == string(before)
	}
	return nil
}

// confirm shows a change of entries, of which the first is added or removed, and asks for permission. Other values of the file may be
// secrets, and are not shown. Other commands may edit the file meanwhile; then it has changed, and is not written.
func (o *connectOptions) confirm(cmd *cobra.Command, h hostconfig.Host, f *hostconfig.File, after []byte, question string, entries ...hostconfig.Entry) (bool, error) {
	out, in := cmd.OutOrStdout(), cmd.InOrStdin()
	style := console.StyleOf(out, lookupEnv)
	head := tilde(f.Name)
	if !f.Exists {
		head += " (new)"
	}
	fmt.Fprintln(out, style.Bold(head))
	from, to := h.Mask(string(f.Data), entries...), h.Mask(string(after), entries...)
	if from == to { // an unusual form hides the entry
		entry, err := h.Snippet(o.name, entries[0])
		if err != nil {
			return false, err
		}
		if from, to = "", string(entry); len(after) < len(f.Data) {
			from, to = to, from
		}
	}
	if err := console.Diff(out, style, console.Columns(out), from, to); err != nil {
		return false, err
	}
	if o.yes {
		return true, nil
	}
	if !console.IsTerminal(in) {
		return false, errors.New("nothing is written, because this is no terminal on which to ask you: add --yes")
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := console.NewPrompter(in, out, style).Confirm(ctx, question)
	if err == nil && !ok || ctx.Err() != nil {
		return false, errors.New("nothing is written")
	}
	if err != nil {
		return false, err
	}
	err = o.lock(cmd, f.Name)
	return err == nil, err
}

func (o *connectOptions) lock(cmd *cobra.Command, name string) (err error) {
	o.unlock, err = lock(cmd.Context(), name)
	return err
}

func (o *connectOptions) close() {
	if o.unlock != nil {
		o.unlock()
	}
}
