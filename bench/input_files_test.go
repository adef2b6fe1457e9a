package bench

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListInputFindsRegularFilesOnly(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "b", "deep"), 0o755))
	for name, text := range map[string]string{"z": "12345", "b/deep/a": "1", "c": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	require.NoError(t, os.Symlink("z", filepath.Join(root, "link")))
	files, err := ListInput(root)
	require.NoError(t, err)
	require.Equal(t, []InputFile{
		{filepath.Join(root, "b/deep/a"), 1}, {filepath.Join(root, "c"), 0}, {filepath.Join(root, "z"), 5},
	}, files)

	files, err = ListInput(filepath.Join(root, "link"))
	require.NoError(t, err)
	require.Equal(t, []InputFile{{filepath.Join(root, "z"), 5}}, files, "a link that was asked for is followed")
}

func TestListInputSaysWhatIsWrong(t *testing.T) {
	_, err := ListInput(filepath.Join(t.TempDir(), "nowhere"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "--input")
	_, err = ListInput(t.TempDir())
	require.ErrorContains(t, err, "no regular file")
}

func TestDealFilesDealsAllOfThemEvenly(t *testing.T) {
	file := func(name string, size int64) InputFile { return InputFile{name, size} }
	files := []InputFile{file("a", 1), file("b", 7), file("c", 4), file("d", 4), file("e", 0)}
	for _, row := range []struct {
		n    int
		want [][]InputFile
	}{
		{1, [][]InputFile{{files[1], files[2], files[3], files[0], files[4]}}},
		{2, [][]InputFile{{files[1], files[0], files[4]}, {files[2], files[3]}}},
		{7, [][]InputFile{{files[1]}, {files[2]}, {files[3]}, {files[0]}, {files[4]}, nil, nil}},
	} {
		require.Equal(t, row.want, DealFiles(files, row.n), "%d readers", row.n)
	}
}

func TestEachWordStopsAtAnErrorAndAtAMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	require.NoError(t, os.WriteFile(path, []byte("one two three"), 0o644))
	enough := fs.ErrClosed
	var words []string
	_, err := eachWord([]InputFile{{Path: path}}, func(word []byte, _ int64) error {
		if words = append(words, string(word)); len(words) == 2 {
			return enough
		}
		return nil
	})
	require.ErrorIs(t, err, enough)
	require.Equal(t, []string{"one", "two"}, words)

	read, err := eachWord([]InputFile{{Path: path}, {Path: path + "-gone"}}, func([]byte, int64) error { return nil })
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.EqualValues(t, 13, read)
}

func TestDefaultInputIsTheSourceOfTheGoInstallation(t *testing.T) {
	root := t.TempDir()
	t.Setenv("GOROOT", root)
	_, err := DefaultInput()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "--input")
	require.NoError(t, os.Mkdir(filepath.Join(root, "src"), 0o755))
	source, err := DefaultInput()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(root, "src"), source)

	t.Setenv("GOROOT", "")
	t.Setenv("PATH", "")
	_, err = DefaultInput()
	require.ErrorContains(t, err, "--input", "there is no go to ask")
}
