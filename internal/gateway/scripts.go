package gateway

import (
	"fmt"
	"regexp"

	"mcpgateway/internal/config"
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
func (gen *generation) addScripts(c *config.Profile, own *metatool.Options) error {
	if c.Scripts {
		own.Scripts = &gen.scripts.Limits
	}
	byName := make(map[string]*script.Composite)
	for i, f := range c.ToolFiles {
		tool, err := loadComposite(f)
		if err == nil && byName[tool.Name] != nil {
			err = fmt.Errorf("another file defines %s too", tool.Name)
		}
		if err == nil && metatool.IsOwn(tool.Name) {
			err = fmt.Errorf("%s is the name of one of the gateway's own tools", tool.Name)
		}
		if err != nil {
			return fmt.Errorf("profiles.%s.tools_from[%d]: %s: %w", c.Name, i, f.File, err)
		}
		byName[tool.Name] = tool
		own.Composites = append(own.Composites, tool)
	}
	if len(byName) > 0 {
		name := c.Name
		if name == config.DefaultProfile {
			name = ""
		}
		gen.scripts.Composites[name] = byName
	}
	return nil
}

// compositeName is the form of the name of a tool (2025-11-25, server/tools, "Tool Names").
var compositeName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// loadComposite reads a file that defines a tool.
func loadComposite(f config.ToolFile) (*script.Composite, error) {
	tool, err := script.LoadComposite(f.File, f.Source, metatool.Clock{})
	if err != nil {
		return nil, err
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
