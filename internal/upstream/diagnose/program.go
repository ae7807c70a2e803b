package diagnose

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"mcpgateway/internal/upstream/process"
)

// Program says in one sentence why there is no connection to a program, and what to do
// about it. The text is for the log: it may contain paths and output of the program.
func Program(c process.Config, why error) string {
	text := programAdvice(c, why)
	if _, failed := errors.AsType[*HandshakeError](why); failed {
		text += tildeInArgs(c.Args)
	}
	return text
}

func programAdvice(c process.Config, why error) string {
	if f, ok := errors.AsType[*process.StartError](why); ok {
		return startAdvice(c, f)
	}
	end, ended := errors.AsType[*process.ExitError](why)
	handshake, failed := errors.AsType[*HandshakeError](why)
	var words process.Words
	if ended {
		words = end.Words
	} else if failed {
		words = handshake.Words
	} else if killed, ok := errors.AsType[*EndedError](why); ok {
		words = killed.Words
	}
	call, inCall := errors.AsType[*FailedCall](why)
	if inCall && words.Text != "" {
		words.Text = call.Hide(words.Text)
	}
	last := ""
	if words.Text != "" {
		last = "; " + StandardError(words.Text, words.Error)
	}
	if ended && end.OutOfFiles && c.Limits.Files > 0 {
		last += fmt.Sprintf("; it says that too many files were open, and limits.files allows %d", c.Limits.Files)
	}
	switch {
	case ended && end.Memory != nil:
		return fmt.Sprintf("the program %q and the processes that it started were ended: %v%s: raise limits.memory, or find out what they need it for", c.Command, end.Memory, last)
	case failed && IsLineTooLong(why):
		return fmt.Sprintf("the program %q prints text that is no MCP message (%v)%s: %s", c.Command, why, last, CheckStdio)
	case IsLineTooLong(why):
		return fmt.Sprintf("the program %q: %v%s"+StartedAgain+"; have its tools answer with less, and see that it prints nothing but MCP messages on standard output", c.Command, why, last)
	case failed && handshake.NonProtocolOutput && ended:
		return fmt.Sprintf("the program %q printed text that is no MCP message and ended with %s%s: %s, and that its args are complete", c.Command, end.Status(), last, CheckServer)
	case failed && handshake.NonProtocolOutput:
		return fmt.Sprintf("the program %q prints text that is no MCP message (%v)%s: %s", c.Command, why, last, CheckStdio)
	case failed && ended && end.Err == nil:
		return fmt.Sprintf("the program %q ended with status 0 before initialize%s: %s, that its args do not only make it print something, and that it stays in the foreground", c.Command, last, CheckServer)
	case failed && ended && last == "":
		return fmt.Sprintf("the program %q ended with %s before initialize and said nothing on its standard error: check its args and env, and run it by hand", c.Command, end.Status())
	case failed && ended:
		return fmt.Sprintf("the program %q ended with %s before initialize%s: fix that, and check its args and env", c.Command, end.Status(), last)
	case ended && inCall:
		return fmt.Sprintf("the program %q ended with %s%s%s", c.Command, end.Status(), DuringCall, last)
	case ended:
		return fmt.Sprintf("the program %q ended with %s%s"+StartedAgain, c.Command, end.Status(), last)
	case errors.Is(why, ErrHandshakeTimeout):
		return fmt.Sprintf("the program %q: %v%s: %s, and raise timeout if it takes longer, as a first download may; a server of modern revisions that leaves initialize unanswered needs era: modern", c.Command, why, last, CheckServer)
	default:
		return fmt.Sprintf("the program %q: %v%s", c.Command, why, last)
	}
}

// startAdvice says why a program could not be started. It examines the files again, as
// the supervisor reports the reason as text only.
func startAdvice(c process.Config, f *process.StartError) string {
	const more = "give its whole path as command, or add its folder to PATH under env"
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
			return fmt.Sprintf("the program %q was not started, as there is no folder %q: %s", c.Command, c.Dir, cmp.Or(tildeAdvice("cwd", c.Dir), "check cwd"))
		}
	}
	at := c.Command
	if !strings.Contains(at, "/") {
		path, _ := lastOf(c.Env, "PATH")
		if at = inPath(path, at); at == "" {
			if words := strings.Fields(c.Command); len(words) > 1 {
				return fmt.Sprintf("there is no program %q in the folders of PATH: if those are a program and its arguments, make %q the command and begin args with [\"%s\"]",
					c.Command, words[0], strings.Join(words[1:], `", "`))
			}
			return fmt.Sprintf("there is no program %q in the folders of PATH: install it, %s", c.Command, more)
		}
	} else if !filepath.IsAbs(at) {
		at = filepath.Join(c.Dir, at)
	}
	info, err := os.Stat(at)
	switch {
	case errors.Is(err, os.ErrNotExist):
		check := "check command"
		if !filepath.IsAbs(c.Command) {
			check += "; a relative path begins at cwd"
		}
		return fmt.Sprintf("there is no file %q: %s", at, cmp.Or(tildeAdvice("command", c.Command), check))
	case err != nil:
		return fmt.Sprintf("the program %q cannot be started: %v", c.Command, err)
	case info.IsDir():
		return fmt.Sprintf("%q is a folder, not a program: check command", at)
	case info.Mode()&0o111 == 0:
		return fmt.Sprintf("the file %q is not executable: chmod +x it, or make its interpreter the command and it the first of args", at)
	case strings.Contains(f.Err.Error(), syscall.ENOENT.Error()):
		return fmt.Sprintf("the program %q cannot be started, as what its first line (#!) names as interpreter, or its loader, is not there: install that", at)
	case strings.Contains(f.Err.Error(), syscall.ENOEXEC.Error()):
		return fmt.Sprintf("the file %q is no program for this machine: if it is a script, its first line must name an interpreter (#!/bin/sh)", at)
	default:
		return fmt.Sprintf("the program %q cannot be started: %v", at, f.Err)
	}
}

// tildeAdvice says how to write a path whose ~ a shell would replace, "" for another path. The path may be one that was made
// absolute, and then has ~ as a folder.
func tildeAdvice(key, path string) string {
	_, rest, found := strings.Cut("/"+filepath.ToSlash(path)+"/", "/~/")
	if !found {
		return ""
	}
	return fmt.Sprintf("~ is not expanded in %s; write ${HOME}/%s", key, strings.TrimSuffix(rest, "/"))
}

// tildeInArgs is the advice for arguments that begin with ~/, as a program gets them as they are written.
func tildeInArgs(args []string) string {
	for _, arg := range args {
		if strings.HasPrefix(arg, "~/") {
			return "; " + tildeAdvice("args", arg) + " if the program needs the path"
		}
	}
	return ""
}

// inPath returns the file of a program by its name, "" if there is none. A file that
// cannot be executed is returned only if there is no other.
func inPath(path, name string) string {
	found := ""
	for _, dir := range filepath.SplitList(path) {
		at := filepath.Join(dir, name)
		info, err := os.Stat(at)
		switch {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 != 0:
			return at
		case found == "":
			found = at
		}
	}
	return found
}

// lastOf returns the value of a variable in an environment.
func lastOf(env []string, name string) (value string, ok bool) {
	for _, entry := range env {
		if v, is := strings.CutPrefix(entry, name+"="); is {
			value, ok = v, true
		}
	}
	return value, ok
}
