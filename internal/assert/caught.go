package assert

// Caught sorts out what recover returned: nil if nothing panicked, the Failure
// if an assertion failed. Any other panic goes on, with its value. Call it as
//
//	defer func() { if f := assert.Caught(recover()); f != nil { … } }()
//
// or from a deferred method whose own recover it is.
func Caught(recovered any) *Failure {
	switch r := recovered.(type) {
	case nil:
		return nil
	case *Failure:
		return r
	default:
		panic(r)
	}
}
