package results

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Setting is one of the Settings, by its name in files.
type Setting struct{ Name, Value string }

// String returns "name=value".
func (s Setting) String() string { return s.Name + "=" + s.Value }

// SettingNames returns the names of all settings.
func SettingNames() (names []string) {
	for field := range reflect.TypeFor[Settings]().Fields() {
		names = append(names, nameInFiles(field))
	}
	return names
}

// List returns the settings that are present, in the order of files.
func (s Settings) List() (list []Setting) {
	for field, value := range reflect.ValueOf(s).Fields() {
		if value.IsZero() {
			continue
		}
		text := fmt.Sprint(value)
		if value.CanFloat() {
			text = strconv.FormatFloat(value.Float(), 'f', -1, 64)
		}
		list = append(list, Setting{nameInFiles(field), text})
	}
	return list
}

// String returns the settings that are present as "name=value,name=value".
func (s Settings) String() string { return joinSettings(s.List()) }

func joinSettings(list []Setting) string {
	var texts []string
	for _, setting := range list {
		texts = append(texts, setting.String())
	}
	return strings.Join(texts, ",")
}

// Set sets one of them from its name and a value as List writes it. A value that
// would leave it absent is an error.
func (s *Settings) Set(name, text string) error {
	for field, value := range reflect.ValueOf(s).Elem().Fields() {
		if nameInFiles(field) != name {
			continue
		}
		switch value.Kind() {
		case reflect.String:
			value.SetString(text)
		case reflect.Int:
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return fmt.Errorf("%s is %q, want a number from 1", name, text)
			}
			value.SetInt(int64(n))
		case reflect.Float64:
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || !(v > 0) {
				return fmt.Errorf("%s is %q, want a number above 0", name, text)
			}
			value.SetFloat(v)
		default:
			return fmt.Errorf("%s cannot be set from text", name)
		}
		if value.IsZero() {
			return fmt.Errorf("%s has no value", name)
		}
		return nil
	}
	return fmt.Errorf("unknown setting %q, want one of %s", name, strings.Join(SettingNames(), ", "))
}

// Match reports whether all settings that are present in s are the same in other.
func (s Settings) Match(other Settings) bool {
	have := other.List()
	return !slices.ContainsFunc(s.List(), func(want Setting) bool { return !slices.Contains(have, want) })
}

func nameInFiles(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}
