package config

// Annotations are hints about what a tool does. Nil stands for one that is not given.
type Annotations struct {
	ReadOnlyHint    *bool `yaml:"readOnlyHint" doc:"the tool changes nothing"`
	DestructiveHint *bool `yaml:"destructiveHint" doc:"the tool may destroy or overwrite data"`
	IdempotentHint  *bool `yaml:"idempotentHint" doc:"the same call again changes nothing more"`
	OpenWorldHint   *bool `yaml:"openWorldHint" doc:"the tool reaches beyond a closed set of things, such as the web"`
}

// Given returns the hints that are given, by name; nil for none.
func (a Annotations) Given() map[string]bool {
	var given map[string]bool
	for name, hint := range map[string]*bool{
		"readOnlyHint": a.ReadOnlyHint, "destructiveHint": a.DestructiveHint, "idempotentHint": a.IdempotentHint, "openWorldHint": a.OpenWorldHint,
	} {
		if hint == nil {
			continue
		}
		if given == nil {
			given = make(map[string]bool)
		}
		given[name] = *hint
	}
	return given
}

// check demands a hint.
func (a *Annotations) check(m *mapping) {
	if len(m.given) == 0 && len(m.intended) == 0 {
		m.errorf("", "names no hint; write one, such as readOnlyHint: true, or remove it")
	}
}
