package host

// Machine tells one life of the kernel, and one mount, from another. The zero
// Machine knows nothing, so that every stop without a marker counts as a power
// failure.
type Machine struct {
	// BootID returns a name for the kernel's present life, "" if unknown.
	BootID func() string
	// Mount returns a name for the mount that holds a directory, "" if unknown.
	// A directory that was unmounted and mounted again has another.
	Mount func(dir string) string
}

// machineIdentity is where and when a directory is used.
type machineIdentity struct{ bootID, mount string }

func (m Machine) identity(dir string) machineIdentity {
	var id machineIdentity
	if m.BootID != nil {
		id.bootID = m.BootID()
	}
	if m.Mount != nil {
		id.mount = m.Mount(dir)
	}
	return id
}
