# The module for one torch, and the rooms that see its headers.

set(GRAMME_TENSOR_ROOMS aten meta backend)  # but files that include what GRAMME_OPERATOR_HEADERS matches
set(GRAMME_TORCH_ROOMS tape record passes training native pipeline)
set(GRAMME_OPERATOR_HEADERS "#include <(ATen/ATen.h|ATen/core/dispatch/|torch/csrc/(autograd|jit)/)")
set(GRAMME_API_OF_TORCH pipeline testing_invoke testing_memory testing_tape testing_types)  # of src/api: the rest needs no operators

# The folders of src/torch for a minor version, the newest first. Each has what differs from the one before; a version
# without a folder is built with the newest: at import gramme lists what it lacks.
function(folders_of_torch variable minor)
  file(GLOB found LIST_DIRECTORIES true RELATIVE ${CMAKE_SOURCE_DIR}/src/torch ${CMAKE_SOURCE_DIR}/src/torch/2_*)
  list(SORT found COMPARE NATURAL)
  set(folders "")
  foreach(folder IN LISTS found)
    string(REPLACE "_" "." folder_minor ${folder})
    if(folder_minor VERSION_LESS_EQUAL minor)
      list(PREPEND folders ${CMAKE_SOURCE_DIR}/src/torch/${folder})
    endif()
  endforeach()
  set(${variable} ${folders} PARENT_SCOPE)
endfunction()

# The signatures of torch's operators: 1,700 lines that its headers say, made when the build needs them.
function(add_signatures name torch_dir out)
  set(tool ${CMAKE_SOURCE_DIR}/tools/make_native_signatures.py)
  file(MAKE_DIRECTORY ${out})
  add_custom_command(OUTPUT ${out}/torch_signatures.def
                     COMMAND ${Python_EXECUTABLE} ${tool} ${torch_dir} ${out}/torch_signatures.def
                     DEPENDS ${tool} ${torch_dir}/version.py VERBATIM)
  add_custom_target(${name} DEPENDS ${out}/torch_signatures.def)
endfunction()

# Objects that see torch's headers and the tables of its version, those in the newest folder first.
function(add_torch_objects name header headers_of_torch)
  add_objects(${name} ${header} ${ARGN})
  target_link_libraries(${name} PRIVATE nanobind-static)
  target_include_directories(${name} SYSTEM PRIVATE ${headers_of_torch} ${headers_of_torch}/torch/csrc/api/include)
endfunction()

# Of several torches the first one's is what a build makes if nobody asks for another.
function(add_torch_module torch_dir)
  file(STRINGS ${torch_dir}/version.py version REGEX "^__version__ = ")
  string(REGEX MATCH "[0-9]+\\.[0-9]+" minor "${version}")
  folders_of_torch(folders "${minor}")
  if(NOT folders)
    message(FATAL_ERROR "gramme needs torch 2.13 or newer, found ${version} (${torch_dir})")
  endif()
  list(GET folders 0 newest)
  message(STATUS "torch ${minor} in ${torch_dir}, by what ${newest} says of it")
  string(REPLACE "." "_" of ${minor})
  set(generated ${CMAKE_BINARY_DIR}/generated/${of})
  add_signatures(torch_signatures_${of} ${torch_dir} ${generated})

  sources_of(tensor ${GRAMME_TENSOR_ROOMS})
  sources_of(operators ${GRAMME_TORCH_ROOMS})
  sources_of(api api torch)
  list(APPEND api ${GRAMME_VERSIONED})
  foreach(source IN LISTS tensor)
    file(STRINGS ${source} found REGEX ${GRAMME_OPERATOR_HEADERS} LIMIT_COUNT 1)
    if(found)
      list(APPEND operators ${source})
    endif()
  endforeach()
  list(TRANSFORM GRAMME_API_OF_TORCH REPLACE "(.+)" "src/api/\\1.cpp" OUTPUT_VARIABLE api_of_torch)
  list(APPEND operators ${api_of_torch})
  list(REMOVE_ITEM tensor ${operators})
  list(REMOVE_ITEM api ${operators})

  add_torch_objects(gramme_tensor_${of} src/tensor_pch.h ${torch_dir}/include ${tensor})
  add_torch_objects(gramme_torch_${of} src/torch_pch.h ${torch_dir}/include ${operators})
  add_torch_objects(gramme_api_${of} src/api_pch.h ${torch_dir}/include ${api})
  foreach(objects gramme_tensor_${of} gramme_torch_${of})
    # torch itself is built with NDEBUG: some of its classes have other members without it.
    target_compile_definitions(${objects} PRIVATE NDEBUG TORCH_API_INCLUDE_EXTENSION_H)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      # GCC's collector would walk the half gigabyte of precompiled headers in every file, and find nothing to free.
      target_compile_options(${objects} PRIVATE "SHELL:--param ggc-min-expand=1000"
                                                "SHELL:--param ggc-min-heapsize=4000000")
    endif()
  endforeach()
  foreach(objects gramme_tensor_${of} gramme_torch_${of} gramme_api_${of})
    target_include_directories(${objects} PRIVATE ${folders} ${generated})
    add_dependencies(${objects} torch_signatures_${of})
  endforeach()

  set(module _C_${of})
  add_library(${module} MODULE)
  set_target_properties(${module} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME _C)
  nanobind_extension(${module})
  target_link_libraries(${module} PRIVATE gramme_api_${of} gramme_torch_${of} gramme_tensor_${of} gramme_tracing
                                          gramme_plain nanobind-static Python::Module)
  # No run path: gramme imports torch first, which loads these.
  foreach(library torch torch_cpu torch_python c10)
    target_link_libraries(${module} PRIVATE ${torch_dir}/lib/lib${library}.so)
  endforeach()
  set_target_properties(${module} PROPERTIES SKIP_BUILD_RPATH ON)
  if(GRAMME_OUTPUT_DIR)
    set(output ${GRAMME_OUTPUT_DIR})
  else()
    set(output ${CMAKE_SOURCE_DIR}/python/gramme)
  endif()
  set_target_properties(${module} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${output}/_torch/${of})
  install(TARGETS ${module} LIBRARY DESTINATION gramme/_torch/${of} OPTIONAL)  # of those that were asked for
  if(TARGET _C)
    set_target_properties(${module} gramme_tensor_${of} gramme_torch_${of} gramme_api_${of} PROPERTIES EXCLUDE_FROM_ALL ON)
  else()
    add_custom_target(_C DEPENDS ${module})
  endif()
endfunction()
