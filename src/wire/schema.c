typedef int kvc_placeholder;
