package ruleset

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"mcpgateway/internal/config"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/metatool"
	"mcpgateway/internal/script"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// scriptLimits translates the bounds on scripts.
func scriptLimits(c config.Scripts) script.Limits {
	return script.Limits{Steps: c.Steps, Calls: c.Calls, Parallel: c.Parallel, Time: c.Time, Output: int(c.Output)}
}

// addScripts adds run_script and the tools that files define to the own tools of a profile.
func (r *Rules) addScripts(id string, c *config.Profile, own *metatool.Options) error {
	if c.Scripts {
		own.Scripts = &r.Scripts.Limits
	}
	byName := make(map[string]*script.Composite)
	for i, f := range c.ToolFiles {
		tool, err := loadComposite(f)
		if err == nil && byName[tool.Name] != nil {
			err = errOtherFile(tool.Name)
		}
		if err != nil {
			return fmt.Errorf("profiles.%s.tools_from[%d]: %s: %w", c.Name, i, f.File, err)
		}
		byName[tool.Name] = tool
		own.Composites = append(own.Composites, tool)
	}
	if len(byName) > 0 {
		r.Scripts.Composites[id] = byName
	}
	return nil
}

// CheckTools runs the tests in the files of tools_from, and reports what is wrong with the files. It
// returns the profiles without the files that cannot be used, so that the rest can be checked.
func CheckTools(ctx context.Context, cfg *config.Config) (findings []inspect.Finding, usable []config.Profile) {
	usable = slices.Clone(cfg.Profiles)
	for i := range usable {
		p := &usable[i]
		add := func(severity string, f config.ToolFile, err error) {
			found := inspect.Finding{Severity: severity, What: "configuration", Message: err.Error(), Profile: p.Name, File: f.File, Line: 1, Column: 1, Path: "profiles." + p.Name + ".tools_from"}
			if at, ok := errors.AsType[*script.Failure](err); ok && at.Line > 0 {
				found.Line, found.Column = at.Line, at.Column
				if err == error(at) {
					found.Message = at.Message
				}
				if at.Hint != "" {
					found.Message += ". " + at.Hint
				}
			}
			findings = append(findings, found)
		}
		names := make(map[string]bool)
		p.ToolFiles = nil
		for _, f := range cfg.Profiles[i].ToolFiles {
			tool, err := loadComposite(f)
			if err == nil && names[tool.Name] {
				err = errOtherFile(tool.Name)
			}
			if err != nil {
				add(inspect.SeverityError, f, err)
				continue
			}
			names[tool.Name] = true
			p.ToolFiles = append(p.ToolFiles, f)
			_, failed := tool.Test(ctx, scriptLimits(cfg.Scripts), metatool.Clock{}, func(member string, value wire.Raw) error {
				return metatool.CheckComposite(tool, member, value)
			})
			for _, err := range failed {
				add(inspect.SeverityError, f, err)
			}
			for _, w := range tool.Warnings {
				add(inspect.SeverityWarning, f, w)
			}
		}
	}
	return findings, usable
}

// CheckCalls reports calls in files of tools_from that name tools which their profile does not
// have. resolves reports whether it has one.
func CheckCalls(cfg *config.Config, resolves func(profile, tool string) bool) (findings []inspect.Finding) {
	for _, p := range cfg.Profiles {
		for _, f := range p.ToolFiles {
			tool, err := loadComposite(f)
			if err != nil {
				continue // CheckTools has reported it
			}
			for _, name := range tool.Tools {
				if !resolves(p.Name, name) {
					findings = append(findings, inspect.Finding{Severity: inspect.SeverityWarning, What: "idle", Profile: p.Name, File: f.File, Line: 1, Column: 1,
						Path: "profiles." + p.Name + ".tools_from", Message: fmt.Sprintf("%s calls %s, which the profile does not have", tool.Name, name)})
				}
			}
		}
	}
	return findings
}

func errOtherFile(name string) error { return fmt.Errorf("another file defines %s too", name) }

// compositeName is the form of the name of a tool (2025-11-25, server/tools, "Tool Names").
var compositeName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// loadComposite reads a file that defines a tool.
func loadComposite(f config.ToolFile) (*script.Composite, error) {
	tool, err := script.LoadComposite(f.File, f.Source, metatool.Clock{})
	if err != nil {
		return nil, err
	}
	if metatool.IsOwn(tool.Name) {
		return nil, fmt.Errorf("%s is the name of one of the gateway's own tools", tool.Name)
	}
	if !compositeName.MatchString(tool.Name) {
		return nil, fmt.Errorf("the name %q must be 1 to 128 of A-Z a-z 0-9 _ . -", tool.Name)
	}
	definition := wire.ValueOf(tool.Definition)
	for _, member := range []string{"inputSchema", "outputSchema"} {
		if schema := definition.Get(member); schema.Exists() {
			if err := toolschema.New(schema.Raw()).Err(); err != nil {
				return nil, fmt.Errorf("%s is no JSON Schema: %w", map[string]string{"inputSchema": "input_schema", "outputSchema": "output_schema"}[member], err)
			}
		}
	}
	return tool, nil
}
