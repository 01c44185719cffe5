# Debian's pyconfig.h includes the machine's one by a path from above: `folder` becomes a folder that such a path starts
# from, of links; the C library stays the compiler's. `headers` is the folder of Python.h.
function(link_machine_headers headers folder)
  cmake_path(GET headers PARENT_PATH above)
  file(GLOB machine_headers ${above}/*-linux-gnu/python3*)
  foreach(found IN LISTS machine_headers)
    cmake_path(GET found PARENT_PATH triplet)
    cmake_path(GET triplet FILENAME triplet)
    cmake_path(GET found FILENAME python)
    file(MAKE_DIRECTORY ${folder}/${triplet})
    file(CREATE_LINK ${found} ${folder}/${triplet}/${python} SYMBOLIC)
  endforeach()
endfunction()
