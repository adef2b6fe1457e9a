package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// parseList reads a comma-separated list of values that differ.
func parseList[T comparable](kind, list string, parse func(field string) (T, error)) ([]T, error) {
	var values []T
	for field := range strings.SplitSeq(list, ",") {
		v, err := parse(strings.TrimSpace(field))
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", kind, field, err)
		}
		if slices.Contains(values, v) {
			return nil, fmt.Errorf("%s %q is given twice", kind, field)
		}
		values = append(values, v)
	}
	return values, nil
}

// parseNames reads a comma-separated list of some of the given names.
func parseNames[T ~string](kind, list string, all []T) ([]T, error) {
	return parseList(kind, list, func(name string) (T, error) {
		if !slices.Contains(all, T(name)) {
			return "", fmt.Errorf("want some of %s", joinNames(all))
		}
		return T(name), nil
	})
}

func joinNumbers(all []int) string {
	var numbers []string
	for _, n := range all {
		numbers = append(numbers, strconv.Itoa(n))
	}
	return strings.Join(numbers, ", ")
}

func joinNames[T ~string](all []T) string {
	var names []string
	for _, name := range all {
		names = append(names, string(name))
	}
	return strings.Join(names, ",")
}
