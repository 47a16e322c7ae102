"""The copy of a service in object storage, or in a directory: events and base images, and the way back.

    targets           where the copy is: a directory, or storage of S3, GCS or Azure; a new object is only created
    headers           the check of the header of a numbered object
    objects           one numbered object: header, checksum, payload
    segments          rows of the log as the payload of a numbered object
    chain             the numbers of one copy: whose it is, and its last object
    fences            where another data directory took the copy over, and what counts no more since then
    notes             the notes beside the events by which a standby knows the writer's tokens
    event_queue       events that wait for the uploader, within a limit
    takeover          the fence with which another data directory takes the copy over
    base_image        a copy of the data directory as of one event
    restore           a data directory from a copy, as of any event
    old_objects       the removal of objects that no base image of the last days needs
    uploader          the thread that writes segments and base images
    gate              whether events may be acknowledged: not while the copy is too far behind
    replicated_store  the store on disk with an uploader
    report            the events that a copy can restore, and whether all of it is sound
    followed_copy     the segments that come after a place, one by one
    standby_swap      the change of a data directory into another one in its place
    standby_directory the data directory of a standby
    standby_store     the store of a standby, whose events come from a copy until it is promoted
    old_directory     a data directory that no service uses, read without a change
    tail_words        events in words
    tail              the events and rows that a directory has, and the copy that was taken over lacks
    tail_files        these as files
    rejoin            a directory whose copy was taken over becomes a standby

A module imports only modules that are above it in this list. A copy has these objects:

    psoup-copy                the incarnation of the data directory that is copied
    log/000000000000042       numbered objects: a segment (events), the manifest of a base image, or a fence
    fences/000000000000042    empty: the number of a fence
    files/<sha256>            the files of base images, by the checksum of their content; with -42 of the epoch 42
    first/000000000000017     empty: the number before which old objects were removed
    marks/000000000000042-…   empty: a standby needs the objects from this number on

    1 base  2 events  3 events  4 events  5 base  6 events …      each has the checksum of the one before
      └── as of event 0    1…40    41…90      └── as of event 90

Every object is created once and never changed. A number is written only if it is free. Old objects are removed.
"""
