package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
)

// maxFileSize bounds how much is read. A run of days has some MiB.
const maxFileSize = 64 << 20

// Figures are zero or lie between these, so that what is worked out from them is
// a number too.
const (
	smallestFigure = 1e-30
	largestFigure  = 1e30
)

// Read reads a file that WriteJSON wrote. The error says what is wrong with it,
// and where. Workloads and metrics that this program does not know are kept.
func Read(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	defer file.Close()
	f, err := ReadFrom(file)
	if err != nil {
		return nil, fmt.Errorf("read results: %s: %w", path, err)
	}
	return f, nil
}

// ReadFrom reads what WriteJSON wrote, to its end. Medians and ratios are worked
// out from the rounds, whatever the file says.
func ReadFrom(r io.Reader) (*File, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFileSize {
		return nil, fmt.Errorf("larger than %d MiB, no result file is", maxFileSize>>20)
	}
	if err := checkFormat(text); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	f := new(File)
	if err := decoder.Decode(f); err != nil {
		return nil, explain(err, text)
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	f.Summarise()
	return f, nil
}

// checkFormat refuses what is no result file, or one of another version, before
// the rest of it is looked at.
func checkFormat(text []byte) error {
	var head struct {
		Format   *int    `json:"format"`
		Workload *string `json:"workload"`
	}
	err := json.Unmarshal(text, &head)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType):
		return fmt.Errorf("not a result file: %w", explain(err, text))
	case err != nil:
		return explain(err, text)
	case head.Format == nil || head.Workload == nil:
		return errors.New(`not a result file: it has no "format" and "workload"`)
	case *head.Format != FormatVersion:
		return fmt.Errorf("it has format %d, this program reads %d: measure again or use the bench that wrote it",
			*head.Format, FormatVersion)
	}
	return nil
}

// explain says in which line an error of the decoder is.
func explain(err error, text []byte) error {
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON: line %d: %w", lineAt(text, syntax.Offset), err)
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return fmt.Errorf("line %d: it is a JSON %s, want an object", lineAt(text, wrongType.Offset), wrongType.Value)
	case errors.As(err, &wrongType):
		return fmt.Errorf("line %d: %s is a JSON %s, want %s", lineAt(text, wrongType.Offset), wrongType.Field,
			wrongType.Value, jsonKind(wrongType.Type))
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("it has the field %s, which this program does not know: measure again or use the bench that wrote it", field)
	}
	return err
}

func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "an array"
	case reflect.Map, reflect.Struct, reflect.Pointer:
		return "an object"
	case reflect.String:
		return "a string"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

func lineAt(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n"))
}

// check refuses files that no run can have written.
func (f *File) check() error {
	if len(f.Results) == 0 {
		return errors.New("it has no results: measure again")
	}
	seen := make(map[Settings]int)
	for i, m := range f.Results {
		if m == nil || len(m.Rounds) == 0 {
			return fmt.Errorf("results[%d] has no rounds", i)
		}
		if first, ok := seen[m.Settings]; ok {
			return fmt.Errorf("results[%d] has the settings of results[%d]: %v", i, first, m.Settings)
		}
		seen[m.Settings] = i
		for n, round := range m.Rounds {
			for metric, v := range round {
				if v != 0 && !(v >= smallestFigure && v <= largestFigure) {
					return fmt.Errorf("results[%d], round %d: %s is %v, want 0 or %v to %v", i, n+1, metric, v,
						smallestFigure, largestFigure)
				}
			}
		}
	}
	return nil
}
