package config

// Trim says which parts of definitions the lists of a profile leave out.
type Trim struct {
	Description        int     `yaml:"description" default:"0" min:"0" max:"1000000" doc:"most characters of a description, cut at a sentence or a word; 0 means no limit"`
	SchemaDescriptions int     `yaml:"schema_descriptions" default:"0" min:"0" max:"1000000" doc:"most characters of a description in a schema, or of an argument of a prompt; 0 means no limit"`
	Examples           Trimmed `yaml:"examples" default:"keep" enum:"keep|drop" doc:"examples in schemas"`
	Titles             Trimmed `yaml:"titles" default:"keep" enum:"keep|drop" doc:"titles of items, and in schemas"`
	OutputSchema       Trimmed `yaml:"output_schema" default:"keep" enum:"keep|drop" doc:"schemas of results"`
	Annotations        Trimmed `yaml:"annotations" default:"keep" enum:"keep|drop" doc:"annotations; without them hosts assume that a tool changes things"`
	Icons              Trimmed `yaml:"icons" default:"keep" enum:"keep|drop" doc:"icons"`
}

// Trimmed says whether a part of a definition stays.
type Trimmed string

// The values of keys of profiles.*.trim.
const (
	TrimKeep Trimmed = "keep"
	TrimDrop Trimmed = "drop"
)

// minTrim is the least limit of a description that is not a mistake.
const minTrim = 16

// check refuses limits that leave nothing to read.
func (t *Trim) check(m *mapping) {
	for key, limit := range map[string]int{"description": t.Description, "schema_descriptions": t.SchemaDescriptions} {
		if limit > 0 && limit < minTrim {
			m.errorf(key, "must be at least %d characters, or 0 for no limit", minTrim)
		}
	}
}
